"""Is a token replaced early enough, not all at once, and before it is a day old?"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.objects.tokens import JITTER, ServiceAccountToken, due
from proto.kubernetes.contents.projections import audience_of, token_key

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def token(**lives: float) -> ServiceAccountToken:
    """A token issued at noon."""
    return ServiceAccountToken("t", NOON, NOON + timedelta(**lives))


@pytest.mark.parametrize(
    ("lives", "latest"),
    [
        pytest.param(600, 480, id="the-shortest-at-four-fifths"),
        pytest.param(3607, 2885.6, id="the-usual-one"),
        pytest.param(30 * 3600, 24 * 3600, id="at-a-day-where-that-is-sooner"),
        pytest.param(365 * 86400, 24 * 3600, id="a-year-long-one-at-a-day"),
    ],
)
def test_when_it_is_due(lives: float, latest: float) -> None:
    """At most ten seconds earlier (token_manager_test.go TestRequiresRefresh)."""
    at = due(token(seconds=lives).version, "uid")
    assert NOON + timedelta(seconds=latest) - JITTER <= at <= NOON + timedelta(seconds=latest)


@given(st.integers(600, 2**32), st.text())
def test_it_is_due_while_it_lives(lives: int, seed: str) -> None:
    """And always at the same time for the same pod."""
    version = token(seconds=lives).version
    assert NOON < due(version, seed) == due(version, seed) < NOON + timedelta(seconds=lives)


def test_pods_do_not_come_back_together() -> None:
    """Tokens issued at the same time are due at different times."""
    version = token(hours=1).version
    assert len({due(version, f"uid-{number}") for number in range(100)}) > 90


def test_a_token_is_not_shown() -> None:
    """Neither in a log nor in its version."""
    held = ServiceAccountToken("s3cret", NOON, NOON)
    assert "s3cret" not in repr(held) + held.version


@pytest.mark.parametrize("audience", ["", "vault", "https://kubernetes.default.svc/a/b"])
def test_a_key_tells_what_is_asked_for(audience: str) -> None:
    """Also with slashes in it; with the API's default of an hour."""
    assert audience_of(token_key({"audience": audience})) == (audience, 3600)
    assert audience_of(token_key({"audience": audience, "expirationSeconds": 600})) == (audience, 600)
