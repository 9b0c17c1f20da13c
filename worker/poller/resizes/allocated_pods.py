"""What the pods of this node were granted: `<root-dir>/allocated_pods_state`, which a kubelet has, too, in the same form.

Read by `resizes` at the start of the poller, and written after each grant, before the pod's workflow is told: otherwise a
poller that dies in between would take the resources back. A pod without an entry has what its workflow last showed
(`pod.json`), so a lost file costs nothing (pkg/kubelet/allocation/state).
"""

import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from activities.files.atomic_files import write_atomically
from proto.kubernetes.container_hash import fnv32a
from proto.pod_snapshot import pod_path
from workflows.decide.resources.resizes import Allocation, allocation_of

FILE: Final = "allocated_pods_state"
_KINDS: Final = ("limits", "requests", "claims")
"""In the order in which Go writes them."""

_log: Final = structlog.get_logger(__name__)


class AllocatedPods:
    """The allocations by uid, in memory and in the file."""

    def __init__(self, root_dir: Path) -> None:
        """Read the file; one that is damaged counts as absent."""
        self._root_dir, self._file = root_dir, root_dir / FILE
        self._written, self._lock = b"", threading.Lock()
        self._known = self._read()

    def of(self, uid: str) -> Allocation | None:
        """Return what a pod was granted; None for a pod that was never admitted."""
        if uid not in self._known and (shown := self._shown(uid)):
            self._known[uid] = shown
        return self._known.get(uid)

    def set(self, uid: str, granted: Allocation) -> None:
        """Record what a pod is granted; on disk with the next `write`."""
        self._known[uid] = granted

    def remove(self, uid: str) -> None:
        """Forget a pod; on disk with the next `write`."""
        self._known.pop(uid, None)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget all other pods: they went while no poller ran."""
        self._known = {uid: granted for uid, granted in self._known.items() if uid in uids}

    def write(self) -> None:
        """Put it on disk if it has changed, from any thread. A file that cannot be written is logged: pods run without it."""
        with self._lock:
            content = to_checkpoint(self._known.copy())
            if content == self._written:
                return
            try:
                write_atomically(self._file, content)
            except OSError as error:
                _log.warning("could not write what the pods were granted", path=str(self._file), err=str(error))
                return
            self._written = content

    def _read(self) -> dict[str, Allocation]:
        try:
            content = self._file.read_bytes()
            found = of_checkpoint(content)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            _log.warning("could not read what the pods were granted", path=str(self._file), err=str(error))
            return {}
        self._written = content
        return found

    def _shown(self, uid: str) -> Allocation | None:
        """Return what the worker last wrote of the pod."""
        try:
            return allocation_of(json.loads(pod_path(self._root_dir, uid).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def to_checkpoint(allocations: Mapping[str, Allocation]) -> bytes:
    """Write allocations as a kubelet does."""
    entries = {
        uid: {
            "ContainerResources": {name: _resources(one) for name, one in sorted(granted.containers.items())},
            "PodLevelResources": None if granted.pod is None else _resources(granted.pod),
        }
        for uid, granted in sorted(allocations.items())
    }
    data = _compact({"entries": entries} if entries else {})
    return _compact({"data": data, "checksum": checksum(data)}).encode()


def of_checkpoint(content: bytes) -> dict[str, Allocation]:
    """Read allocations; raises ValueError for a damaged file."""
    try:
        whole = json.loads(content)
        data = str(whole["data"])
        if whole["checksum"] != checksum(data):
            raise ValueError("its checksum is wrong")
        return {
            uid: Allocation(dict(one["ContainerResources"] or {}), one.get("PodLevelResources"))
            for uid, one in (json.loads(data).get("entries") or {}).items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a list of allocations: {error}") from error


def checksum(data: str) -> int:
    """Return the kubelet's checksum of a text: FNV-1a of 32 bits over how spew prints it (checkpointmanager/checksum)."""
    return fnv32a(f"(string){data}")


def _resources(said: Mapping[str, Any]) -> dict[str, Any]:
    found = {kind: said[kind] for kind in _KINDS if said.get(kind)}
    return {kind: dict(sorted(one.items())) if isinstance(one, dict) else one for kind, one in found.items()}


def _compact(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
