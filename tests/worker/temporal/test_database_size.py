"""How much of a SQLite database is in use? Deleted rows do not count, although the file stays as large.

The files may be made to deceive: they are those of a user whom somebody may have taken over.
"""

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from worker.temporal import database_size
from worker.temporal.database_size import limit_bytes, used_bytes

SEED = 7


def told_by_sqlite(file: Path) -> int:
    """Ask SQLite itself."""
    with closing(sqlite3.connect(file)) as database:
        size, pages, free = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
        )
    return int((pages - free) * size)


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


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_it_says_what_sqlite_says(page_size: int, tmp_path: Path) -> None:
    """After each of many commits, transactions that are undone, checkpoints and new beginnings of the log."""
    draw = random.Random(SEED)
    file = tmp_path / "temporal.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(f"PRAGMA page_size = {page_size}")
        for pragma in ("journal_mode = WAL", "wal_autocheckpoint = 40", "cache_size = 5"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE history (data BLOB)")
        for _ in range(150):
            database.execute("BEGIN")
            match draw.randrange(4):
                case 0:
                    database.execute("DELETE FROM history WHERE rowid % 3 = ?", (draw.randrange(3),))
                case 1:
                    database.execute("UPDATE history SET data = ? WHERE rowid % 5 = 0", (bytes(draw.randrange(9_000)),))
                case _:
                    rows = [(bytes(draw.randrange(20_000)),) for _ in range(draw.randrange(1, 8))]
                    database.executemany("INSERT INTO history VALUES (?)", rows)
            database.execute(draw.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            if draw.random() < 0.05:
                database.execute(f"PRAGMA wal_checkpoint({draw.choice(['PASSIVE', 'RESTART', 'TRUNCATE'])})")
            assert used_bytes(file) == told_by_sqlite(file)
    assert used_bytes(file) == told_by_sqlite(file), "without a log"


def test_a_link_of_root_leads_to_it(tmp_path: Path) -> None:
    """As from the place where an earlier release has the database."""
    (tmp_path / "temporal").mkdir()
    with closing(sqlite3.connect(tmp_path / "temporal" / "temporal.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE history (data BLOB)")
        database.execute("INSERT INTO history VALUES (?)", (bytes(100_000),))
        database.commit()
        (tmp_path / "temporal.db").symlink_to("temporal/temporal.db")
        assert used_bytes(tmp_path / "temporal.db") > 100_000


@pytest.mark.parametrize("name", ["temporal.db", "temporal.db-wal"])
@pytest.mark.parametrize(
    "trap",
    [
        pytest.param(lambda place, secret: place.symlink_to(secret), id="a-link"),
        pytest.param(lambda place, _: os.mkfifo(place), id="a-pipe-without-a-writer"),
        pytest.param(lambda place, _: place.mkdir(), id="a-folder"),
    ],
)
def test_a_trap_is_not_opened(trap: Callable[[Path, Path], None], name: str, tmp_path: Path) -> None:
    """It is refused at once, and nothing is made beside it."""
    folder = tmp_path / "temporal"
    folder.mkdir()
    secret = tmp_path / "secret"
    with closing(sqlite3.connect(folder / "temporal.db")) as database:
        database.execute("CREATE TABLE history (data BLOB)")
    (folder / "temporal.db").rename(secret)
    (tmp_path / "temporal.db").symlink_to("temporal/temporal.db")
    for one in ("temporal.db", "temporal.db-wal"):
        if one == name:
            trap(folder / one, secret)
        elif one == "temporal.db":
            (folder / one).write_bytes(secret.read_bytes())
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match="cannot be read"):
        used_bytes(tmp_path / "temporal.db")
    assert sorted(folder.iterdir()) == before


def test_a_log_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of gigabytes takes a moment to write."""
    monkeypatch.setattr(database_size, "LONGEST_LOG", 100)
    file = tmp_path / "temporal.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("CREATE TABLE history (data BLOB)")
        database.execute("INSERT INTO history VALUES (?)", (bytes(500_000),))
        with pytest.raises(ValueError, match="its log has more than 100 pages"):
            used_bytes(file)


@pytest.mark.parametrize("seed", range(50))
def test_garbage_is_a_number_or_refused(seed: int, tmp_path: Path) -> None:
    """Never another error, nor a negative number."""
    draw = random.Random(seed)
    file = tmp_path / "temporal.db"
    magic = draw.choice([database_size.LOG_MAGIC[0].to_bytes(4, "big"), b""])
    file.write_bytes(database_size.MAGIC + draw.randbytes(draw.randrange(200)))
    file.with_name("temporal.db-wal").write_bytes(magic + draw.randbytes(4) + b"\0\0\2\0" + draw.randbytes(9_000))
    try:
        assert used_bytes(file) >= 0
    except ValueError as error:
        assert "cannot be read" in str(error)  # noqa: PT017 - either is right


def test_a_limit_is_a_quantity() -> None:
    """As everywhere in Kubernetes."""
    assert limit_bytes("5Gi") == 5 << 30
