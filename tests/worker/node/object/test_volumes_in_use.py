"""Is the status computed at once when a pod waits for a volume, and does the worker hear what the API server knows?"""

import asyncio
from pathlib import Path

from proto.volumes_in_use import in_use_folder, reported_volumes, write_wanted_volumes
from worker.node.object.sync import ReportedVolumes, follow_wanted_volumes


async def test_the_status_is_computed_at_once(tmp_path: Path) -> None:
    """For one more volume; its timer alone would take ten seconds. One less can wait, and so can what the worker is told."""
    sync_now, reported = asyncio.Event(), ReportedVolumes(tmp_path)
    following = asyncio.create_task(follow_wanted_volumes(tmp_path, sync_now))
    async with asyncio.timeout(20):
        for names in (["a"], ["b", "c"]):
            await asyncio.sleep(0)
            assert not sync_now.is_set()
            write_wanted_volumes(tmp_path, names)
            await sync_now.wait()
            sync_now.clear()
            await reported.tell(names)
            write_wanted_volumes(tmp_path, names[:1])
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert not sync_now.is_set()


async def test_the_worker_is_told(tmp_path: Path) -> None:
    """At each change; what cannot be written is tried again with the next status."""
    told, folder = ReportedVolumes(tmp_path), in_use_folder(tmp_path)
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    await told.tell(["a"])
    folder.unlink()
    await told.tell(["a"])
    assert reported_volumes(tmp_path) == {"a"}
    file = folder / "reported.json"
    before = file.stat().st_ino
    await told.tell(("a",))
    assert file.stat().st_ino == before
    await told.tell([])
    assert reported_volumes(tmp_path) == frozenset()
