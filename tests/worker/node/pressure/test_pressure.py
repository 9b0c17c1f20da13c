"""Which pressure conditions does a node have?"""

import sqlite3
from pathlib import Path

import pytest

from proto.temporal.eviction.thresholds import Amount, EvictionPolicy, Signal, Threshold
from worker.daemon.config import NodeConfig
from worker.node.pressure.watch import HISTORY_PRESSURE, PressureWatch
from worker.settings.tempolet_configuration import HistoryKeys, TempoletConfiguration, TemporalKeys

ALWAYS = Amount(share=2.0)


@pytest.mark.parametrize(
    ("signals", "conditions"),
    [
        pytest.param((), set(), id="no-threshold"),
        pytest.param((Signal.MEMORY,), {"MemoryPressure"}, id="memory"),
        pytest.param((Signal.PIDS, Signal.NODE_FS), {"PIDPressure", "DiskPressure"}, id="two"),
        pytest.param((Signal.CONTAINER_FS,), set(), id="containerfs-has-the-thresholds-of-another-disk"),
    ],
)
async def test_a_threshold_that_is_met_is_shown(
    tmp_path: Path, signals: tuple[Signal, ...], conditions: set[str]
) -> None:
    """By what is measured of this machine."""
    policy, turns = EvictionPolicy(tuple(Threshold(one, ALWAYS) for one in signals)), list[str]()
    watch = PressureWatch(
        NodeConfig("n1", tmp_path, eviction=policy), lambda: str(tmp_path), lambda: turns.append("turned")
    )
    for _ in range(2):
        await watch.measure()
    assert watch.conditions == conditions
    assert turns == ["turned"] * bool(conditions), "told once"


async def test_a_database_of_histories_over_its_limit_is_a_pressure(tmp_path: Path) -> None:
    """Measured with the others; a file that cannot be read is none."""
    file, turns = tmp_path / "temporal.db", list[str]()
    ours = TempoletConfiguration(temporal=TemporalKeys(database_file=file), history=HistoryKeys("64Mi"))
    watch = PressureWatch(
        NodeConfig("n1", tmp_path, eviction=EvictionPolicy(), tempolet=ours), str, lambda: turns.append("turned")
    )
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
