"""When is Temporal away, and when is only one pod's workflow at fault?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.stand_in.away import AttentiveClock, Committed, Due, Limits, Verdict, judge

WEB, DB = "pod/n1/default/web/u1", "pod/n1/default/db/u2"
ANSWER = "the answer of container/web"


def due(since: float, pod: str = WEB) -> Due:
    """Return an answer that is due."""
    return Due(pod, ANSWER, since)


ROWS = {
    "nothing is due on an idle node, however long nothing was committed": ([], Committed(at=0), 10_000, None, ()),
    "due for less than 5 s": ([due(100)], Committed(at=0), 104.9, None, ()),
    "due for 5 s, and nothing committed since": ([due(100)], Committed(at=50), 105, 100, ()),
    "due for 5 s, but something was committed meanwhile": ([due(100)], Committed(at=101), 105, None, ()),
    "5 s after that commit": ([due(100)], Committed(at=101), 106, 100, ()),
    "a slow Temporal that commits every 4 s": ([due(100)], Committed(at=116), 120, None, ()),
    "the oldest is named": ([due(102, DB), due(100)], Committed(at=0), 110, 100, ()),
    "one pod undelivered for 30 s": ([due(100)], Committed(at=129), 130, None, (WEB,)),
    "one pod undelivered for 29 s": ([due(100)], Committed(at=128), 129, None, ()),
    "only the pod that waits": ([due(100), due(128, DB)], Committed(at=129), 130, None, (WEB,)),
    "three failed tasks": ([due(100)], Committed(104, ((WEB, 3),)), 105, None, (WEB,)),
    "two failed tasks": ([due(100)], Committed(104, ((WEB, 2),)), 105, None, ()),
    "failed tasks of a pod that waits for nothing else": (
        [due(100, DB)],
        Committed(104, ((WEB, 3),)),
        105,
        None,
        (WEB,),
    ),
    "a pod whose tasks fail does not make Temporal away": ([due(100)], Committed(99, ((WEB, 3),)), 140, None, (WEB,)),
    "away for all: nobody alone": ([due(100, DB)], Committed(99, ((WEB, 3),)), 140, 100, ()),
}


@pytest.mark.parametrize(("waits", "committed", "now", "since", "alone"), ROWS.values(), ids=ROWS)
def test_verdict(
    waits: list[Due], committed: Committed, now: float, since: float | None, alone: tuple[str, ...]
) -> None:
    """Judge one row."""
    verdict = judge(waits, committed, now)
    assert verdict.away_since == since
    assert tuple(pod for pod, _ in verdict.alone) == alone


def test_the_verdict_says_what_waits() -> None:
    """It is shown in a condition."""
    assert judge([due(100)], Committed(), 107).why == f"{ANSWER} of {WEB} is due for 7 s"
    alone = judge([due(100)], Committed(at=131), 131)
    assert alone.alone == ((WEB, f"{ANSWER} is due for 31 s, while Temporal works for others"),)


def test_the_time_is_a_setting() -> None:
    """A site with slow failovers raises it."""
    assert judge([due(100)], Committed(), 115, limits=Limits(away=20)) == Verdict()
    assert judge([due(100)], Committed(), 120, limits=Limits(away=20)).away_since == 100


def test_what_was_due_before_the_worker_polls_waited_for_the_worker() -> None:
    """It counts from then on, for all and for one pod alone."""
    assert judge([due(100)], Committed(), 140, polls_since=136) == Verdict()
    assert judge([due(100)], Committed(), 141, polls_since=136).away_since == 100
    assert judge([due(100)], Committed(at=165), 165, polls_since=136) == Verdict()
    assert judge([due(100)], Committed(at=166), 166, polls_since=136).alone[0][0] == WEB


def test_a_slow_machine_has_longer_for_one_pod_alone() -> None:
    """There a workflow task takes longer, too."""
    assert judge([due(100)], Committed(at=140), 140, limits=Limits(alone=57)) == Verdict()
    assert judge([due(100)], Committed(at=157), 157, limits=Limits(alone=57)).alone[0][0] == WEB


TIMES = st.floats(0, 1000)


@given(st.lists(TIMES, max_size=5), TIMES, TIMES)
def test_a_commit_never_makes_it_away(since: list[float], committed: float, now: float) -> None:
    """A later commit takes the verdict back, and nothing else than a time without any brings it."""
    waits = [due(one) for one in since]
    assert judge(waits, Committed(at=now), now).away_since is None
    if judge(waits, Committed(at=committed), now).away_since is not None:
        assert any(now - one >= 5 for one in since)
        assert now - committed >= 5


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [([10.2, 10.4, 10.6], 0.6), ([10.2, 310.2], 1.2), ([9.0, 9.5], 0.5), ([10.5, 15.5, 15.7], 1.7)],
    ids=["every step counts", "suspended for five minutes", "a clock that goes back", "a loop blocked for 5 s"],
)
def test_the_clock_counts_only_attentive_time(steps: list[float], seconds: float) -> None:
    """A process that did not run cannot say that Temporal was late."""
    clock = AttentiveClock(10.0)
    for step in steps:
        clock.step(step)
    assert clock.now == pytest.approx(seconds)
