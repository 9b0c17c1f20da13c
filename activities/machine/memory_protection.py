"""What the cgroups above the pods keep of their memory, so that what a pod's own cgroup keeps can count (feature gate MemoryQoS).

Asked by `cgroups` whenever a pod's cgroup is made, resized or removed; only cgroup v2 can. The kernel shares out among the
children no more than their parent keeps: kubepods keeps what all pods asked for, the burstable tier what its own did
(pkg/kubelet/cm/qos_container_manager_linux.go setMemoryQoS). Blocks on files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proto.kubernetes.resources.memory import MEMORY_LOW, MEMORY_MIN
from proto.kubernetes.resources.qos import QosClass

_FILE_OF: Final = {QosClass.GUARANTEED: MEMORY_MIN, QosClass.BURSTABLE: MEMORY_LOW}


class MemoryProtection:
    """The sums of one node; without the gate, or on v1, it does nothing."""

    def __init__(self, kubepods: Path | None, burstable: Path | None) -> None:
        """Take both cgroups' folders; None: nothing is to be kept."""
        self._kubepods, self._burstable = kubepods, burstable
        self._kept: dict[str, tuple[QosClass, int]] = {}

    def begin(self) -> None:
        """Take over what the pods of an earlier worker keep, and set the sums."""
        if self._kubepods is None or self._burstable is None:
            return
        for qos, tier in ((QosClass.GUARANTEED, self._kubepods), (QosClass.BURSTABLE, self._burstable)):
            for pod in tier.glob("pod*"):
                self._kept[pod.name.removeprefix("pod")] = (qos, _bytes_in(pod / _FILE_OF[qos]))
        self._write()

    def pod(self, uid: str, qos: QosClass, unified: Mapping[str, str]) -> None:
        """Count a pod by the files of its cgroup."""
        kept = int(unified.get(_FILE_OF.get(qos, ""), 0))
        if self._kept.get(uid, (qos, 0)) != (qos, kept):
            self._kept[uid] = (qos, kept)
            self._write()

    def gone(self, uid: str) -> None:
        """Count a pod no longer."""
        if self._kept.pop(uid, (None, 0))[1]:
            self._write()

    def _write(self) -> None:
        if self._kubepods is None or self._burstable is None:
            return
        kept = list(self._kept.values())
        burstable = sum(amount for qos, amount in kept if qos is QosClass.BURSTABLE)
        (self._kubepods / MEMORY_MIN).write_text(str(sum(amount for _, amount in kept)))
        (self._burstable / MEMORY_LOW).write_text(str(burstable))


def _bytes_in(file: Path) -> int:
    try:
        text = file.read_text().strip()
    except FileNotFoundError:  # it is being removed
        return 0
    return int(text) if text.isdecimal() else 0
