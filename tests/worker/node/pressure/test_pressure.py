"""Which pressure conditions does a node have, and for how long?"""

import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.kubernetes.resources.quantity import parse_quantity
from worker.node.pressure.signals import Places, disk, memory, observe, process_ids
from worker.node.pressure.thresholds import HISTORY_PRESSURE, Observation, Pressure, evaluate
from worker.node.pressure.watch import PressureWatch
from worker.settings.eviction import SIGNALS, Amount, Eviction, Threshold
from worker.settings.tempolet_configuration import HistoryKeys, TempoletConfiguration, TemporalKeys

NOW = datetime(2026, 11, 22, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HARD = Threshold("memory.available", Amount(parse_quantity("100")))
SOFT = Threshold("memory.available", Amount(parse_quantity("200")), grace=MINUTE, reclaim=Amount(parse_quantity("50")))
DISK = Threshold("imagefs.inodesFree", Amount(share=0.1))
ALL = Eviction((HARD, SOFT, DISK), transition=5 * MINUTE)


def seen(available: int, signal: str = "memory.available") -> dict[str, Observation]:
    """Observe this much of 1000."""
    return {signal: Observation(available, 1000)}


@pytest.mark.parametrize(
    ("observed", "conditions"),
    [
        pytest.param({}, set(), id="what-was-not-measured-meets-nothing"),
        pytest.param(seen(500), set(), id="plenty"),
        pytest.param(seen(200), set(), id="as-much-as-the-threshold-is-enough"),
        pytest.param(seen(199), {"MemoryPressure"}, id="a-soft-one-shows-before-its-grace-is-over"),
        pytest.param(seen(99), {"MemoryPressure"}, id="a-hard-one-shows-at-once"),
        pytest.param(seen(99, "imagefs.inodesFree"), {"DiskPressure"}, id="inodes-are-disk"),
        pytest.param(seen(100, "imagefs.inodesFree"), set(), id="a-share-of-what-is-there"),
        pytest.param({**seen(0), **seen(0, "imagefs.inodesFree")}, {"MemoryPressure", "DiskPressure"}, id="both"),
    ],
)
def test_what_is_seen_first(observed: Mapping[str, Observation], conditions: set[str]) -> None:
    """Without earlier observations."""
    assert evaluate(ALL, observed, Pressure(), NOW).conditions == conditions


def test_a_condition_is_shown_for_the_transition_period_after_it_was_last_seen() -> None:
    """So that the scheduler's taint does not flap."""
    state = evaluate(ALL, seen(0), Pressure(), NOW)
    state = evaluate(ALL, seen(900), state, NOW + 5 * MINUTE - timedelta(seconds=1))
    assert state.conditions == {"MemoryPressure"}
    assert evaluate(ALL, seen(900), state, NOW + 5 * MINUTE).conditions == set()


def test_what_has_lasted_for_its_grace_goes_only_with_its_reclaim() -> None:
    """At 249 of 200 + 50 it is still met, at 250 no more."""
    before = evaluate(ALL, seen(199), Pressure(), NOW)
    fresh = evaluate(ALL, seen(249), before, NOW + timedelta(seconds=1))
    assert fresh.last_seen["MemoryPressure"] == NOW, "its grace was not over"
    before = evaluate(ALL, seen(199), before, NOW + MINUTE)
    assert evaluate(ALL, seen(249), before, NOW + 2 * MINUTE).last_seen["MemoryPressure"] == NOW + 2 * MINUTE
    assert evaluate(ALL, seen(250), before, NOW + 2 * MINUTE).last_seen["MemoryPressure"] == NOW + MINUTE


def test_a_transition_of_no_time_still_shows_what_is_there() -> None:
    """The kubelet would never show it."""
    eviction = replace(ALL, transition=timedelta())
    state = evaluate(eviction, seen(0), Pressure(), NOW)
    assert state.conditions == {"MemoryPressure"}
    assert evaluate(eviction, seen(900), state, NOW + MINUTE).conditions == set()


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 600)), max_size=12))
def test_a_condition_is_shown_exactly_when_it_was_seen_within_the_transition(steps: list[tuple[int, int]]) -> None:
    """For any measurements at any times."""
    state, now = Pressure(), NOW
    met: list[datetime] = []
    for available, seconds in steps:
        now += timedelta(seconds=seconds)
        state = evaluate(ALL, seen(available), state, now)
        if available < 200:
            met.append(now)
        recent = any(now - at < ALL.transition for at in met)
        if recent:
            assert state.conditions == {"MemoryPressure"}
        elif available >= 250:  # in between, a held threshold may still be met because of its reclaim
            assert not state.conditions or now - state.last_seen["MemoryPressure"] < ALL.transition
        assert set(state.first_seen) >= state.held


def test_memory_of_the_unified_hierarchy(tmp_path: Path) -> None:
    """The root has no usage: anonymous and file memory, less inactive file memory."""
    (tmp_path / "memory.stat").write_text("anon 300\nfile 200\ninactive_file 150\n")
    assert memory(Hierarchies(tmp_path, {}), 1000) == Observation(650, 1000)


def test_memory_of_version_1(tmp_path: Path) -> None:
    """As read by cAdvisor."""
    (tmp_path / "memory.usage_in_bytes").write_text("500\n")
    (tmp_path / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 600\n")
    assert memory(Hierarchies(None, {"memory": tmp_path}), 1000) == Observation(1000, 1000), (
        "never less than nothing used"
    )


def test_process_ids_are_bounded_by_the_smaller_of_two_limits(tmp_path: Path) -> None:
    """pid_max and threads-max; threads count, too."""
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/pid_max").write_text("4000\n")
    (tmp_path / "sys/kernel/threads-max").write_text("3000\n")
    (tmp_path / "loadavg").write_text("1.36 3.49 4.53 2/700 3715089\n")
    assert process_ids(tmp_path) == Observation(2300, 3000)


def test_this_machine_is_measured(tmp_path: Path) -> None:
    """Every signal with a condition, within its bounds; a missing folder is omitted."""
    found = observe(Places(tmp_path, tmp_path, Hierarchies.of_this_node()))
    assert found.keys() == {
        "memory.available",
        "pid.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
    }
    assert found.keys() <= SIGNALS.keys()
    assert all(0 <= one.available <= one.capacity for one in found.values())
    assert found["nodefs.available"].capacity == disk(tmp_path)[0].capacity
    assert "imagefs.available" not in observe(Places(tmp_path, tmp_path / "none", Hierarchies.of_this_node()))


async def test_a_database_of_histories_over_its_limit_is_a_pressure(tmp_path: Path) -> None:
    """Measured with the others; a file that cannot be read is none."""
    file, turns = tmp_path / "temporal.db", list[str]()
    ours = TempoletConfiguration(temporal=TemporalKeys(database_file=file), history=HistoryKeys("64Mi"))
    watch = PressureWatch(Eviction(()), tmp_path, str, lambda: turns.append("turned"), configuration=ours)
    await watch.measure()
    assert HISTORY_PRESSURE not in watch.conditions
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE history (data BLOB)")
    database.execute("INSERT INTO history VALUES (zeroblob(?))", [65 << 20])
    database.commit()
    await watch.measure()
    assert HISTORY_PRESSURE in watch.conditions
    database.execute("DELETE FROM history")
    database.commit()
    database.close()
    await watch.measure()
    assert HISTORY_PRESSURE not in watch.conditions
    assert turns == ["turned", "turned"]
