"""Which pressure conditions does a node show?"""

import sqlite3
from pathlib import Path

from proto.node_pressure import node_pressure_path, write_node_pressure
from worker.daemon.config import NodeConfig
from worker.node.pressure.watch import HISTORY_PRESSURE, PressureWatch
from worker.settings.tempolet_configuration import HistoryKeys, TempoletConfiguration, TemporalKeys


async def test_what_the_worker_has_judged_is_shown(tmp_path: Path) -> None:
    """Each change is told once; before the first judgement, and of a damaged file, nothing is known."""
    turns = list[str]()
    watch = PressureWatch(NodeConfig("n1", tmp_path), lambda: turns.append("turned"))
    await watch.measure()
    assert not watch.conditions
    assert turns == []
    for conditions in (("MemoryPressure",), ("MemoryPressure", "DiskPressure"), ("MemoryPressure", "DiskPressure")):
        write_node_pressure(tmp_path, conditions)
        await watch.measure()
        assert watch.conditions == set(conditions)
    node_pressure_path(tmp_path).write_text("{")
    await watch.measure()
    assert watch.conditions == set()
    assert turns == ["turned"] * 3


async def test_a_database_of_histories_over_its_limit_is_a_pressure(tmp_path: Path) -> None:
    """Measured with the others; a file that cannot be read is none."""
    file, turns = tmp_path / "temporal.db", list[str]()
    ours = TempoletConfiguration(temporal=TemporalKeys(database_file=file), history=HistoryKeys("64Mi"))
    watch = PressureWatch(NodeConfig("n1", tmp_path, tempolet=ours), lambda: turns.append("turned"))
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
