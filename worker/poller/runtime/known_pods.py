"""The worker's snapshots of the pods, to compare with the runtime.

The snapshots are files on the node's disk and only a cache; a file is parsed again only after it was replaced, so that
an idle node costs one stat a pod and relist.
"""

import os
from dataclasses import replace
from pathlib import Path

from proto.pod_snapshot import PodSnapshot, has_ended, pod_folders, snapshot_path
from proto.temporal.pod import ContainerState
from proto.temporal.signals import RuntimeChanged
from worker.poller.calls.open_workflows import is_pod_of

_Parsed = dict[str, tuple[tuple[int, int], PodSnapshot | None]]
"""UID -> (identity of the file, its content)."""


class KnownPods:
    """The snapshots of one node's pods; `all` may run in a thread."""

    def __init__(self, root_dir: Path, node: str) -> None:
        self._root_dir = root_dir
        self._node = node
        self._parsed: _Parsed = {}

    def of(self, uid: str) -> PodSnapshot | None:
        """Read one pod's snapshot; None if there is none, or it cannot be read."""
        return self._read(uid, self._parsed)

    def is_over(self, uid: str) -> bool:
        """Report whether nothing of a pod runs or will run."""
        snapshot = self.of(uid)
        return snapshot is not None and has_ended(snapshot)

    def all(self) -> dict[str, PodSnapshot]:
        """Read all, by UID."""
        uids = self.folders()
        before = dict(self._parsed)  # a copy, because the event loop continues to read
        parsed = {uid: before[uid] for uid in uids if uid in before}
        found = {uid: self._read(uid, parsed) for uid in uids}
        self._parsed = parsed
        return {uid: snapshot for uid, snapshot in found.items() if snapshot}

    def folders(self) -> list[str]:
        """List the UIDs of the pods that have a folder, also those of a kubelet that was here before."""
        return pod_folders(self._root_dir)

    def with_object(self, object_id: str) -> PodSnapshot | None:
        """Find the pod whose newest sandbox or container this is, among the snapshots read so far."""
        for _, snapshot in list(self._parsed.values()):
            if snapshot and object_id in {snapshot.sandbox_id, *(c.container_id for c in snapshot.containers.values())}:
                return snapshot
        return None

    def _read(self, uid: str, parsed: _Parsed) -> PodSnapshot | None:
        path = snapshot_path(self._root_dir, uid)
        try:
            found = os.stat(path)  # noqa: PTH116 - called once a pod and relist
        except OSError:
            parsed.pop(uid, None)
            return None
        version = (found.st_ino, found.st_mtime_ns)
        known = parsed.get(uid)
        if known and known[0] == version:
            return known[1]
        try:
            snapshot = replace(
                PodSnapshot.from_json(path.read_bytes()), status={}
            )  # without the status, which is not used here
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # a cache, in which anything may stand
            return None
        ours = snapshot.node == self._node and snapshot.uid == uid and is_pod_of(self._node, snapshot.workflow_id)
        parsed[uid] = (version, snapshot if ours else None)
        return parsed[uid][1]


def unknown_part(hint: RuntimeChanged, snapshot: PodSnapshot) -> RuntimeChanged | None:
    """Return the part of a hint that the snapshot does not show yet; None if there is none."""
    if not hint.exited and not hint.sandbox_lost:
        return hint
    ended = {one.container_id for one in snapshot.containers.values() if one.state == ContainerState.EXITED}
    exited = tuple(one for one in hint.exited if one not in ended)
    lost = hint.sandbox_lost and (snapshot.sandbox_ready or not snapshot.sandbox_id)
    return RuntimeChanged(hint.source, exited=exited, sandbox_lost=lost) if exited or lost else None
