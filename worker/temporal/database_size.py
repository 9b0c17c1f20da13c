"""How much of the embedded Temporal's SQLite database is in use.

Asked by the worker, which prunes histories, and by the node process, which shows a condition. The file itself never becomes
smaller: pages of deleted histories are free and are used again, so they do not count. SQLite answers, not the file's header:
what was deleted since the last checkpoint is only in the write-ahead log.
"""

from contextlib import closing
from pathlib import Path

from proto.kubernetes.resources.quantity import NANO, parse_quantity


def limit_bytes(quantity: str) -> int:
    """Return the limit in bytes; raises QuantityError."""
    return parse_quantity(quantity).nanos // NANO


def used_bytes(file: Path) -> int:
    """Return the bytes of pages that are in use; raises ValueError if the file cannot be read."""
    import sqlite3  # noqa: PLC0415 - a megabyte that only nodes with an embedded Temporal need

    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
            page_size, pages, free = (
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
    except sqlite3.Error as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    return int((pages - free) * page_size)
