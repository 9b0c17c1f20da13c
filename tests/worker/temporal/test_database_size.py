"""How much of a SQLite database is in use? Deleted rows do not count, although the file stays as large."""

import sqlite3
from pathlib import Path

import pytest

from worker.temporal.database_size import limit_bytes, used_bytes


def test_free_pages_do_not_count(tmp_path: Path) -> None:
    """As with Temporal's database: a writer that keeps it open, a write-ahead log without a checkpoint, no vacuum."""
    file = tmp_path / "a database?.db"
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    database.execute("CREATE TABLE history (data BLOB)")
    database.executemany("INSERT INTO history VALUES (?)", [(bytes(10_000),)] * 200)
    database.commit()
    assert 2_000_000 < used_bytes(file) < 3_000_000
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = file.stat().st_size
    database.execute("DELETE FROM history")
    database.commit()
    assert file.stat().st_size == size
    assert used_bytes(file) < 100_000
    database.close()


@pytest.mark.parametrize(
    "content",
    [pytest.param(None, id="missing"), pytest.param(b"x" * 5000, id="foreign"), pytest.param(b"SQLite", id="cut")],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """And none is made."""
    file = tmp_path / "temporal.db"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read"):
        used_bytes(file)
    assert file.exists() is (content is not None)


def test_a_limit_is_a_quantity() -> None:
    """As everywhere in Kubernetes."""
    assert limit_bytes("5Gi") == 5 << 30
