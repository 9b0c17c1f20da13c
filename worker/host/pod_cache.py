"""The node's cache of its pods: `<root-dir>/pods/<uid>/observed.json`, written after each decision, and `pod.json`.

A workflow publishes a snapshot from its own thread; one thread writes the newest of each pod, so that neither a
workflow task nor the event loop waits for a disk. It is only a cache: if a write is lost, a reader is a few
milliseconds behind. A disk that takes no file is told (`TROUBLES`); the newest snapshots wait for it, and are tried again
with growing pauses. No error of one pod's file ends the thread.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio.worker import Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from proto.pod_snapshot import PodSnapshot, is_over, pod_path, read_snapshots, snapshot_path
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.daemon.troubles import TROUBLES, Troubles
from workflows.extern import KEEP_STATE, PUBLISH, SETTLED

PART: Final = "snapshots of pods"
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds until snapshots that could not be written are tried again."""

_log: Final = structlog.get_logger(__name__)


class PodCache:
    """Writes snapshots, the newest wins, and keeps them in memory."""

    def __init__(self, root_dir: Path, *, whole_pods: bool = False, troubles: Troubles = TROUBLES) -> None:
        """Take the root directory; `whole_pods`: also write `pod.json`, for other processes."""
        self._troubles = troubles
        self._pause = 0.0
        """Seconds between the last failure and the next try; 0: nothing failed."""
        self._retry_at = 0.0
        self._failed: dict[str, PodSnapshot] = {}
        """By UID: the disk did not take them, and they are tried again."""
        self._root_dir = root_dir
        self._whole_pods = whole_pods
        self._waiting: dict[str, PodSnapshot] = {}
        self._known = {one.uid: one for one in read_snapshots(root_dir, whole_pods=whole_pods)}
        self._written: dict[str, Mapping[str, Any]] = {}
        """By UID: the pod in `pod.json`, compared by identity."""
        self._changed = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write_all, name="pod-cache", daemon=True)

    def __enter__(self) -> "PodCache":
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join(timeout=5)

    def publish(self, snapshot: PodSnapshot) -> None:
        """Take a snapshot; returns at once."""
        with self._changed:
            self._waiting[snapshot.uid] = snapshot
            if is_over(snapshot):
                self._known.pop(snapshot.uid, None)  # the last snapshot: the removal of its directory is not reported
            else:
                self._known[snapshot.uid] = snapshot
            self._changed.notify()

    def snapshots(self) -> list[PodSnapshot]:
        """Return the newest snapshot of every pod that is still on the node."""
        with self._changed:
            return list(self._known.values())

    def _write_all(self) -> None:
        while batch := self._next_batch():
            failed = {one.uid: why for one in batch if (why := self._try_to_write(one))}
            with self._changed:
                for one in batch:
                    self._failed.pop(one.uid, None)
                    if isinstance(failed.get(one.uid), OSError):
                        self._failed[one.uid] = one
            self._note(failed)

    def _next_batch(self) -> list[PodSnapshot]:
        """Wait for snapshots to write, or until those that failed are due; empty: the cache is closed."""
        with self._changed:
            left = max(self._retry_at - time.monotonic(), 0.0) if self._failed else None
            self._changed.wait_for(lambda: bool(self._waiting) or self._closing, left)
            batch, self._waiting = self._waiting, {}
            if self._failed and not self._closing and time.monotonic() >= self._retry_at:
                batch = self._failed | batch
            return list(batch.values())

    def _try_to_write(self, snapshot: PodSnapshot) -> Exception | None:
        """Write one snapshot; returns why it failed."""
        try:
            self._write(snapshot)
        except Exception as error:  # noqa: BLE001 - the thread must not end, and other pods must be written
            if not isinstance(error, OSError):
                _log.exception("the snapshot of a pod cannot be written", podUID=snapshot.uid)
            return error
        return None

    def _note(self, failed: Mapping[str, Exception]) -> None:
        """Tell of what failed, and that all is written again."""
        if failed:
            why = next(iter(failed.values()))
            if not self._pause:
                _log.error("snapshots of pods cannot be written, trying again", pods=len(failed), err=str(why))
            if time.monotonic() >= self._retry_at:
                self._pause = min(self._pause * 2, LONGEST_PAUSE) or FIRST_PAUSE
                self._retry_at = time.monotonic() + self._pause
            self._troubles.failed(PART, f"{len(self._failed)} wait to be written: {type(why).__name__}: {why}")
        elif not self._failed:
            if self._pause:
                _log.info("snapshots of pods can be written again")
            self._pause = 0.0
            self._troubles.works(PART)

    def _write(self, snapshot: PodSnapshot) -> None:
        path = snapshot_path(self._root_dir, snapshot.uid)
        if not snapshot.deleting:  # a rejected pod has no directory, but is shown all the same
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        # the directory of a deleted pod is removed at the same time: then nothing is written, and the directory not
        # created again
        try:
            self._replace(path, snapshot.to_json())
            if self._whole_pods and self._written.get(snapshot.uid) is not snapshot.pod:
                self._replace(pod_path(self._root_dir, snapshot.uid), json.dumps(snapshot.pod).encode())
                self._written[snapshot.uid] = snapshot.pod
            if is_over(snapshot):
                self._written.pop(snapshot.uid, None)
        except FileNotFoundError:
            self._written.pop(snapshot.uid, None)
            with self._changed:
                self._known.pop(snapshot.uid, None)

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        """Write a file atomically; raises OSError, FileNotFoundError if its folder is gone."""
        new = path.with_name(f".{path.name}.{threading.get_ident()}")
        try:
            new.write_bytes(content)
            new.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


def publishing(
    write: Callable[[PodSnapshot], None],
    settle: Callable[[str, str], None] | None = None,
    keep: Callable[[str, str, int, PodStart | NodeStart], None] | None = None,
) -> Interceptor:
    """Return an interceptor that gives every workflow the extern functions (`workflows/extern.py`)."""
    functions = {PUBLISH: write, SETTLED: settle, KEEP_STATE: keep}

    class Publisher(WorkflowInboundInterceptor):
        """Adds only the extern functions."""

    class Publishing(Interceptor):
        """Installs them when a workflow class is first used."""

        def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002 - the SDK's name
            input.unsafe_extern_functions.update({name: one for name, one in functions.items() if one})
            return Publisher

    return Publishing()
