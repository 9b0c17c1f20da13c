"""A container's log read in threads, a batch at a time, so that the event loop never waits for a disk.

Asked by `container_logs`. A thread is taken for each batch only, and a follower that waits has none: hundreds may follow. It is
looked again after 20 ms, and after twice as long each time that nothing is new, up to half a second.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

from activities.container_logs.log_files import ContainerLog
from activities.container_logs.reader import LogOptions, log_pieces
from proto.pod_snapshot import PodSnapshot, snapshot_path
from proto.temporal.pod import ContainerState

BATCH: Final = 128 * 1024
FIRST_WAIT: Final = 0.02
LONGEST_WAIT: Final = 0.5


@dataclass(slots=True)
class StillRunning:
    """Says, by the node's cache of the pod, whether one run of a container goes on."""

    log: ContainerLog
    container_id: str
    _seen: tuple[int, int] = (0, 0)
    _running: bool = True

    def __call__(self) -> bool:
        """Look; called in threads, one after the other."""
        path = snapshot_path(self.log.paths.root_dir, self.log.paths.key.uid)
        try:
            found = path.stat()
            if (found.st_ino, found.st_mtime_ns) != self._seen:
                self._running = self._look(PodSnapshot.from_json(path.read_bytes()))
                self._seen = (found.st_ino, found.st_mtime_ns)
        except (OSError, ValueError, TypeError):
            return False  # the pod is gone
        return self._running

    def _look(self, pod: PodSnapshot) -> bool:
        now = pod.containers.get(self.log.container)
        return now is not None and now.container_id == self.container_id and now.state == ContainerState.RUNNING


async def batches(
    log: ContainerLog, options: LogOptions, running: Callable[[], bool] | None
) -> AsyncGenerator[bytes, None]:
    """Give what is asked for of a log, until its end or, with `running`, until that says no.

    The first comes as soon as the log is open; an empty one whenever there is nothing new, so that whoever sends them can look
    whether anybody is still there. Raises FileNotFoundError or another OSError, before the first.
    """
    pieces = log_pieces(log, options, running)
    wait = FIRST_WAIT

    def batch() -> tuple[bytes, bool]:
        """Read what there is, as much as a batch takes; say whether the end is reached."""
        found: list[bytes] = []
        size = 0
        for piece in pieces:
            if piece is None:
                return b"".join(found), False
            found.append(piece[1])
            size += len(piece[1])
            if size >= BATCH:
                return b"".join(found), False
        return b"".join(found), True

    try:
        while True:
            text, ended = await _finished(batch)
            yield text
            if ended:
                return
            if text:
                wait = FIRST_WAIT
            else:
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
    finally:
        pieces.close()


async def _finished(batch: Callable[[], tuple[bytes, bool]]) -> tuple[bytes, bool]:
    """Run it in a thread; cancelled, wait for its end all the same, for nobody else may touch what it reads."""
    reading = asyncio.ensure_future(asyncio.to_thread(batch))
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        await asyncio.wait([reading])
        raise
