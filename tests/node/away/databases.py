"""The database of a Temporal under test: copied, put back, damaged and deleted while the server is stopped."""

import shutil
from pathlib import Path

from worker.standalone.temporal_server import TemporalServer


def files(server: TemporalServer) -> list[Path]:
    """List the database's files: SQLite has a log and an index beside it."""
    return list(server.database.parent.glob(f"{server.database.name}*"))


def delete(server: TemporalServer) -> None:
    """Delete the database."""
    for path in files(server):
        path.unlink()


def damage(server: TemporalServer) -> None:
    """Overwrite the beginning of the database, as a failing disk does."""
    for path in files(server):
        with path.open("r+b") as file:
            file.write(b"\xff" * 8192)


def copy(server: TemporalServer, folder: Path) -> Path:
    """Copy the database of a stopped server into a folder, and return that."""
    folder.mkdir()
    for path in files(server):
        shutil.copy2(path, folder / path.name)
    return folder


def put_back(server: TemporalServer, copied: Path) -> None:
    """Replace the database by a copy."""
    delete(server)
    for path in copied.iterdir():
        shutil.copy2(path, server.database.parent / path.name)
