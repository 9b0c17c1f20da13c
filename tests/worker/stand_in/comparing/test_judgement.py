"""Is a database that lacks something told from one that has all, whatever has happened since?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from worker.stand_in.comparing.judgement import Seen, Standing, judge
from worker.stand_in.journal.kept import Place

AT = datetime(2026, 11, 24, 12, tzinfo=UTC)
EARLIER, LATER = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
HERE = "namespace-1"
PLACE = Place(HERE, "run-1", 20, AT)
SAME = Seen(length=25, written=AT)


@pytest.mark.parametrize(
    ("place", "seen", "standing"),
    [
        pytest.param(PLACE, SAME, Standing.WHOLE, id="it-has-grown"),
        pytest.param(PLACE, replace(SAME, written=AT + timedelta(microseconds=900)), Standing.WHOLE, id="rounded-time"),
        pytest.param(PLACE, replace(SAME, written=EARLIER), Standing.WHOLE, id="after-a-local-activity"),
        pytest.param(PLACE, Seen(length=20, written=AT), Standing.WHOLE, id="the-task-has-not-ended-yet"),
        pytest.param(PLACE, Seen(length=18), Standing.WHOLE, id="the-task-was-never-written"),
        pytest.param(PLACE, Seen(length=17), Standing.LOST, id="what-the-decision-knew-is-missing"),
        pytest.param(PLACE, Seen(length=3), Standing.LOST, id="much-is-missing"),
        pytest.param(PLACE, replace(SAME, written=LATER), Standing.LOST, id="another-event-has-taken-the-number"),
        pytest.param(PLACE, Seen(length=900), Standing.WHOLE, id="too-long-to-be-looked-through"),
        pytest.param(
            replace(PLACE, at=None), replace(SAME, written=LATER), Standing.WHOLE, id="a-place-of-an-earlier-release"
        ),
        pytest.param(PLACE, Seen(is_known=False), Standing.LOST, id="no-such-workflow"),
        pytest.param(PLACE, Seen(), Standing.LOST, id="an-open-run-but-not-the-known-one"),
        pytest.param(PLACE, Seen(is_open=False), Standing.LOST, id="a-closed-run-but-not-the-known-one"),
        pytest.param(PLACE, replace(SAME, is_open=False), Standing.CLOSED, id="somebody-has-ended-it"),
        pytest.param(PLACE, Seen(is_open=False, length=12), Standing.LOST, id="ended-in-an-older-database"),
        pytest.param(PLACE, None, Standing.NOT_KNOWN, id="no-answer"),
        pytest.param(replace(PLACE, namespace_id="namespace-0"), SAME, Standing.LOST, id="another-namespace"),
        pytest.param(
            replace(PLACE, namespace_id="namespace-0"), None, Standing.LOST, id="another-namespace-and-no-answer"
        ),
        pytest.param(replace(PLACE, namespace_id=""), SAME, Standing.WHOLE, id="the-namespace-was-not-known"),
    ],
)
def test_what_temporal_has(place: Place, seen: Seen | None, standing: Standing) -> None:
    """Compared with the place of the last decision that was kept."""
    judged = judge(place, HERE, seen)
    assert judged.standing is standing
    assert bool(judged.why) == (standing is Standing.LOST)


def test_a_namespace_that_is_not_known_loses_nothing() -> None:
    """It could not be asked for."""
    assert judge(PLACE, "", SAME).standing is Standing.WHOLE
