"""Which thresholds are met, since when, which conditions does the node show, and what is to be acted on?"""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from proto.temporal.eviction.pressure import Pressure
from proto.temporal.eviction.readings import FileSystemReading, MemoryReading, NodeReading, Observation, TaskReading
from proto.temporal.eviction.thresholds import Signal, Threshold
from tests.workflows.decide.eviction.pressed_pods import at, left, threshold
from workflows.decide.eviction.observations import observations
from workflows.decide.eviction.pressure import Judged, judge, met_thresholds, next_due

HARD = threshold(Signal.MEMORY, "100Mi")
SOFT = threshold(Signal.MEMORY, "200Mi", 60)
GREEDY = threshold(Signal.MEMORY, "100Mi", reclaim="50Mi")
MINUTES = timedelta(minutes=5)


def judged(
    thresholds: list[Threshold],
    available: str,
    seconds: float,
    before: Pressure | None = None,
    measured: float | None = None,
) -> Judged:
    """Judge an amount of memory."""
    observed = {Signal.MEMORY: left(available, since=measured)}
    return judge(thresholds, observed, before or Pressure(), transition=MINUTES, now=at(seconds))


@pytest.mark.parametrize(
    ("one", "found", "reclaimed", "is_met"),
    [
        pytest.param(HARD, left("99Mi"), False, True, id="less-is-left"),
        pytest.param(HARD, left("100Mi"), False, False, id="just-as-much-is-left"),
        pytest.param(HARD, left("0"), False, True, id="nothing-is-left"),
        pytest.param(GREEDY, left("149Mi"), False, False, id="the-reclaim-does-not-count-at-first"),
        pytest.param(GREEDY, left("149Mi"), True, True, id="less-than-the-reclaim-is-left"),
        pytest.param(GREEDY, left("150Mi"), True, False, id="the-reclaim-is-left"),
        pytest.param(HARD, left("100Mi"), True, False, id="no-reclaim-is-asked-for"),
        pytest.param(threshold(Signal.MEMORY, "50%"), left("511Mi"), False, True, id="less-than-a-share"),
        pytest.param(threshold(Signal.MEMORY, "50%"), left("512Mi"), False, False, id="a-share"),
        pytest.param(
            threshold(Signal.MEMORY, "50%", reclaim="25%"),
            left("767Mi"),
            True,
            True,
            id="a-share-and-a-share-of-reclaim",
        ),
        pytest.param(threshold(Signal.NODE_FS, "1"), left("0"), False, False, id="nothing-was-measured"),
    ],
)
def test_met(one: Threshold, found: Observation, reclaimed: bool, is_met: bool) -> None:
    """As thresholdsMet."""
    assert bool(met_thresholds([one], {Signal.MEMORY: found}, reclaimed=reclaimed)) is is_met


def test_a_hard_threshold_is_due_at_once() -> None:
    """And shows its condition."""
    found = judged([HARD, SOFT], "50Mi", 0)
    assert found.due == (HARD,)
    assert found.pressure.conditions == ("MemoryPressure",)


def test_a_soft_threshold_is_due_after_its_grace_period() -> None:
    """It shows its condition at once; its grace counts from when it was first met."""
    early = judged([SOFT], "150Mi", 0)
    assert (early.due, early.pressure.conditions) == ((), ("MemoryPressure",))
    assert next_due(early.pressure) == at(60)
    assert judged([SOFT], "150Mi", 59, early.pressure).due == ()
    late = judged([SOFT], "150Mi", 60, early.pressure)
    assert late.due == (SOFT,)
    assert next_due(late.pressure) is None


def test_a_soft_threshold_that_was_not_met_meanwhile_waits_again() -> None:
    """Its first observation is forgotten with the pressure."""
    early = judged([SOFT], "150Mi", 0)
    between = judged([SOFT], "250Mi", 30, early.pressure)
    assert judged([SOFT], "150Mi", 60, between.pressure).due == ()


def test_a_threshold_is_held_until_its_minimum_reclaim_is_there() -> None:
    """It is due as long as it is held."""
    first = judged([GREEDY], "90Mi", 0)
    second = judged([GREEDY], "120Mi", 10, first.pressure)
    assert second.due == (GREEDY,)
    assert judged([GREEDY], "150Mi", 20, second.pressure).due == ()
    assert judged([GREEDY], "120Mi", 10).due == (), "unless it was met before"


def test_a_soft_threshold_is_not_held_before_its_grace_period() -> None:
    """Only what has been met for its grace period needs its minimum reclaim."""
    soft = threshold(Signal.MEMORY, "100Mi", 60, reclaim="50Mi")
    first = judged([soft], "90Mi", 0)
    assert judged([soft], "120Mi", 10, first.pressure).pressure.met == ()


def test_a_condition_stays_for_the_transition_period() -> None:
    """It counts from the last observation."""
    first = judged([HARD], "50Mi", 0)
    second = judged([HARD], "150Mi", 299, first.pressure)
    assert (second.due, second.pressure.conditions) == ((), ("MemoryPressure",))
    assert judged([HARD], "150Mi", 300, second.pressure).pressure.conditions == ()


@pytest.mark.parametrize(
    ("before", "now", "is_due"),
    [
        pytest.param(5, 5, False, id="not-for-the-same-measurement"),
        pytest.param(5, 4, False, id="not-for-an-older-one"),
        pytest.param(5, 6, True, id="for-a-newer-one"),
        pytest.param(None, 5, True, id="for-the-first-with-a-time"),
        pytest.param(5, None, True, id="for-one-without-a-time"),
    ],
)
def test_a_threshold_is_acted_on_once_for_a_measurement(before: float | None, now: float | None, is_due: bool) -> None:
    """As thresholdsUpdatedStats: the cgroup's figures may be older than the eviction."""
    first = judged([HARD], "50Mi", 0, measured=before)
    assert bool(judged([HARD], "50Mi", 10, first.pressure, measured=now).due) is is_due


def test_a_threshold_stays_held_without_a_new_measurement() -> None:
    """It is not forgotten because nothing is done for it."""
    first = judged([GREEDY], "50Mi", 0, measured=5)
    second = judged([GREEDY], "50Mi", 10, first.pressure, measured=5)
    assert [one.threshold for one in second.pressure.met] == [GREEDY]


@pytest.mark.parametrize(
    ("signals", "first"),
    [
        pytest.param([Signal.NODE_FS, Signal.MEMORY], Signal.MEMORY, id="memory-before-disks"),
        pytest.param(
            [Signal.PIDS, Signal.ALLOCATABLE_MEMORY], Signal.ALLOCATABLE_MEMORY, id="memory-of-the-pods-before-pids"
        ),
        pytest.param([Signal.NODE_FS, Signal.PIDS], Signal.PIDS, id="pids-before-disks"),
        pytest.param([Signal.IMAGE_FS, Signal.NODE_FS_INODES], Signal.NODE_FS_INODES, id="nodefs-before-imagefs"),
    ],
)
def test_the_most_urgent_threshold_comes_first(signals: list[Signal], first: Signal) -> None:
    """The kubelet takes memory first, too, and one at random of the others."""
    thresholds = [threshold(signal, "10") for signal in signals]
    observed = {signal: left("5") for signal in signals}
    assert judge(thresholds, observed, Pressure(), transition=MINUTES, now=at(0)).due[0].signal is first


def test_hard_comes_before_soft_of_the_same_resource() -> None:
    """A pod gets a second then, not its grace period."""
    soft = threshold(Signal.NODE_FS, "20", 10)
    hard = threshold(Signal.IMAGE_FS, "10")
    observed = {Signal.NODE_FS: left("5"), Signal.IMAGE_FS: left("5")}
    early = judge([soft, hard], observed, Pressure(), transition=MINUTES, now=at(0))
    late = judge([soft, hard], observed, early.pressure, transition=MINUTES, now=at(10))
    assert late.due == (hard, soft)


def test_what_is_measured_makes_the_signals() -> None:
    """As makeSignalObservations: memory's capacity is a sum, available process ids a difference."""
    node = NodeReading(
        memory=MemoryReading(30, 70, at(1)),
        pods_memory=MemoryReading(5, 15, at(2)),
        node_fs=FileSystemReading(1, 2, 3, 4, at(3)),
        image_fs=FileSystemReading(available=5, capacity=6),
        container_fs=FileSystemReading(inodes_free=7, inodes=8),
        tasks=TaskReading(90, 100, at(4)),
    )
    assert observations(node) == {
        Signal.MEMORY: Observation(30, 100, at(1)),
        Signal.ALLOCATABLE_MEMORY: Observation(5, 20, at(2)),
        Signal.NODE_FS: Observation(1, 2, at(3)),
        Signal.NODE_FS_INODES: Observation(3, 4, at(3)),
        Signal.IMAGE_FS: Observation(5, 6),
        Signal.CONTAINER_FS_INODES: Observation(7, 8),
        Signal.PIDS: Observation(10, 100, at(4)),
    }
    assert observations(NodeReading()) == {}


AMOUNTS = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 120)), min_size=1, max_size=12)


@settings(deadline=None)
@given(AMOUNTS)
def test_what_is_due_is_met_and_shown(steps: list[tuple[int, int]]) -> None:
    """Whatever memory does: what is acted on is met for its grace period, and its condition is shown."""
    thresholds = [HARD, SOFT, threshold(Signal.MEMORY, "150Mi", 20, reclaim="100Mi")]
    pressure, now = Pressure(), 0
    for mebibytes, seconds in steps:
        now += seconds
        found = judged(thresholds, f"{mebibytes}Mi", now, pressure)
        since = {one.threshold: one.since for one in found.pressure.met}
        assert set(found.due) == {one.threshold for one in found.pressure.met if one.held}
        assert all(at(now) - since[one] >= one.grace for one in found.due)
        assert not found.pressure.met or found.pressure.conditions == ("MemoryPressure",)
        assert all(one.since <= at(now) for one in found.pressure.met)
        pressure = found.pressure


def test_pressure_passes_through_a_history() -> None:
    """The node's workflow carries it: thresholds, times and signals are read back as they were."""
    soft = threshold(Signal.MEMORY, "15%", 60, reclaim="50Mi")
    pressure = judged([HARD, soft], "50Mi", 0, measured=0).pressure
    assert len(pressure.met) == 2
    shape = TypeAdapter(Pressure)
    assert shape.validate_json(shape.dump_json(pressure)) == pressure
