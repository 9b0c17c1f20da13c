"""The node's cache of its pods: `<root-dir>/pods/<uid>/observed.json`, written after each decision, and `pod.json`.

A workflow publishes a snapshot from its own thread; one thread writes the newest of each pod (`NewestWriter`). It is only a
cache: if a write is lost, a reader is a few milliseconds behind.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from proto.pod_snapshot import PodSnapshot, is_over, pod_path, read_snapshots, snapshot_path
from proto.temporal.node import NodeStart
from proto.temporal.pod import PodStart
from worker.daemon.troubles import TROUBLES, Troubles
from worker.host.newest_writer import NewestWriter
from workflows.decide.eviction.candidates import decisive_part
from workflows.extern import ENDED, KEEP_STATE, PUBLISH, RECEIVED, Decided, extern

PART: Final = "snapshots of pods"
Start = PodStart | NodeStart


class PodCache:
    """Writes snapshots, the newest wins, and keeps them in memory."""

    def __init__(self, root_dir: Path, *, whole_pods: bool = False, troubles: Troubles = TROUBLES) -> None:
        """Take the root directory; `whole_pods`: `pod.json` has the whole pod, for other processes, not only what evictions need."""
        self._root_dir = root_dir
        self._whole_pods = whole_pods
        self._known = {one.uid: one for one in read_snapshots(root_dir, whole_pods=True)}
        self._written: dict[str, Mapping[str, Any]] = {}
        """By UID: the pod in `pod.json`, compared by identity."""
        self._lock = threading.Lock()
        self._writer = NewestWriter[PodSnapshot](PART, self._write, troubles=troubles)

    def __enter__(self) -> "PodCache":
        self._writer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.__exit__()

    def publish(self, snapshot: PodSnapshot) -> None:
        """Take a snapshot; returns at once."""
        with self._lock:
            if is_over(snapshot):
                self._known.pop(snapshot.uid, None)  # the last snapshot: the removal of its directory is not reported
            else:
                self._known[snapshot.uid] = snapshot
            self._writer.put(snapshot.uid, snapshot)

    def snapshots(self) -> list[PodSnapshot]:
        """Return the newest snapshot of every pod that is still on the node."""
        with self._lock:
            return list(self._known.values())

    def snapshot(self, uid: str) -> PodSnapshot | None:
        """Return the newest snapshot of a pod; None if it is not on the node."""
        with self._lock:
            return self._known.get(uid)

    def pod(self, uid: str) -> Mapping[str, Any]:
        """Return a pod as its source has it; empty if it is not on the node."""
        snapshot = self.snapshot(uid)
        return snapshot.pod if snapshot else {}

    def _write(self, _: str, snapshot: PodSnapshot) -> None:
        path = snapshot_path(self._root_dir, snapshot.uid)
        if not snapshot.deleting:  # a rejected pod has no directory, but is shown all the same
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        # the directory of a deleted pod is removed at the same time: then nothing is written, and the directory not
        # created again
        try:
            self._replace(path, snapshot.to_json())
            if snapshot.pod and self._written.get(snapshot.uid) is not snapshot.pod:
                kept = snapshot.pod if self._whole_pods else decisive_part(snapshot.pod)
                self._replace(pod_path(self._root_dir, snapshot.uid), json.dumps(kept).encode())
                self._written[snapshot.uid] = snapshot.pod
            if is_over(snapshot):
                self._written.pop(snapshot.uid, None)
        except FileNotFoundError:
            self._written.pop(snapshot.uid, None)
            with self._lock:
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
    receive: Callable[[str, str, str], None] | None = None,
    keep: Callable[[str, Decided, Start], None] | None = None,
    end: Callable[[str, str, Start], None] | None = None,
) -> Interceptor:
    """Return an interceptor that gives every workflow the extern functions (`workflows/extern.py`)."""
    functions = {PUBLISH: write, RECEIVED: receive, KEEP_STATE: keep, ENDED: end}

    class Publishing(Interceptor):
        """Installs them when a workflow class is first used."""

        def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:  # noqa: A002 - the SDK's name
            input.unsafe_extern_functions.update({name: one for name, one in functions.items() if one})
            return _Publisher

    return Publishing()


class _Publisher(WorkflowInboundInterceptor):
    """Says when a run has ended by itself; the rest is said by the workflow."""

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 - the SDK's name
        outcome = await super().execute_workflow(input)  # continue-as-new raises
        if end := extern(ENDED):
            info = workflow.info()
            end(info.workflow_id, info.run_id, input.args[0])
        return outcome
