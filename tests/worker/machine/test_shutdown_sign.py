"""Is the sign of a shutdown seen at once, and does one of another boot say nothing?"""

import asyncio
from datetime import timedelta
from pathlib import Path

from worker.machine.shutdown_sign import FILE, FOLDER, ShutdownSign


async def test_changes_are_seen_at_once(tmp_path: Path) -> None:
    """By another reader of the folder."""
    changes = ShutdownSign(tmp_path).changes(timedelta(minutes=10))
    writer = ShutdownSign(tmp_path)
    async with asyncio.timeout(20):
        assert not await anext(changes)
        writer.set()
        while not await anext(changes):
            pass
        writer.clear()
        while await anext(changes):
            pass
    await changes.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_folder_that_is_removed_is_watched_anew(tmp_path: Path) -> None:
    """It is made again."""
    changes = ShutdownSign(tmp_path).changes(timedelta(minutes=10))
    async with asyncio.timeout(20):
        assert not await anext(changes)
        (tmp_path / FOLDER).rmdir()
        assert not await anext(changes)
        ShutdownSign(tmp_path).set()
        while not await anext(changes):
            pass
    await changes.aclose()  # type: ignore[attr-defined]  # it is a generator


def test_one_of_another_boot_says_nothing(tmp_path: Path) -> None:
    """As after a power loss."""
    sign = ShutdownSign(tmp_path)
    assert not sign.is_set()
    sign.set()
    assert sign.is_set()
    (tmp_path / FOLDER / FILE).write_text("another\n")
    assert not sign.is_set()
    (tmp_path / FOLDER / FILE).write_bytes(b"\xff\xfe")
    assert not sign.is_set()
    sign.clear()
    sign.clear()
