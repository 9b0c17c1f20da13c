"""How long does a container have between SIGTERM and SIGKILL?"""

from datetime import timedelta

import pytest

from tests.decide.situations import pod, situation
from workflows.decide.grace import pod_grace, shorter


@pytest.mark.parametrize(
    ("own", "asked", "grace"),
    [
        pytest.param(30, None, 30, id="the-pod-s-own"),
        pytest.param(None, None, 30, id="thirty-seconds-when-it-says-nothing"),
        pytest.param(30, 5, 5, id="what-the-deletion-asks-for-counts"),
        pytest.param(30, 90, 90, id="also-when-it-is-longer"),
        pytest.param(30, 0, 1, id="never-below-a-second"),
        pytest.param(0, None, 1, id="a-pod-without-grace-has-a-second-too"),
        pytest.param(-1, None, 1, id="a-negative-grace-is-a-second"),
    ],
)
def test_pod_grace(own: int | None, asked: float | None, grace: float) -> None:
    """The deletion's grace, else the pod's."""
    spec = situation(pod(terminationGracePeriodSeconds=own)).spec
    wish = None if asked is None else timedelta(seconds=asked)
    assert pod_grace(spec, wish) == timedelta(seconds=grace)


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [pytest.param(30, 5, 5, id="a-later-wish-shortens"), pytest.param(5, 30, 5, id="and-never-lengthens")],
)
def test_shorter(first: float, second: float, counts: float) -> None:
    """Of two deletions."""
    assert shorter(timedelta(seconds=first), timedelta(seconds=second)) == timedelta(seconds=counts)
