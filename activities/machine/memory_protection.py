"""Memory protection of the cgroups above the pods, without which a pod's own has no effect (feature gate MemoryQoS).

Called by `cgroups` whenever a pod's cgroup is created, resized or removed; cgroup v2 only. Children together are
protected no more than their parent: kubepods gets the sum of all pods' requests, the burstable tier the sum of its own
(pkg/kubelet/cm/qos_container_manager_linux.go setMemoryQoS). Blocks on files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proto.kubernetes.resources.memory import MEMORY_LOW, MEMORY_MIN
from proto.kubernetes.resources.qos import QosClass

_FILE_OF: Final = {QosClass.GUARANTEED: MEMORY_MIN, QosClass.BURSTABLE: MEMORY_LOW}


class MemoryProtection:
    """The sums of one node; does nothing on v1 or without the gate."""

    def __init__(self, kubepods: Path | None, burstable: Path | None) -> None:
        """Take both cgroups' folders; None: disabled."""
        self._kubepods, self._burstable = kubepods, burstable
        self._protected: dict[str, tuple[QosClass, int]] = {}

    def begin(self) -> None:
        """Read the protection of pods that an earlier worker left, and set the sums."""
        if self._kubepods is None or self._burstable is None:
            return
        for qos, tier in ((QosClass.GUARANTEED, self._kubepods), (QosClass.BURSTABLE, self._burstable)):
            for pod in tier.glob("pod*"):
                self._protected[pod.name.removeprefix("pod")] = (qos, _bytes_in(pod / _FILE_OF[qos]))
        self._write()

    def pod(self, uid: str, qos: QosClass, unified: Mapping[str, str]) -> None:
        """Add a pod, by the files of its cgroup."""
        protected = int(unified.get(_FILE_OF.get(qos, ""), 0))
        if self._protected.get(uid, (qos, 0)) != (qos, protected):
            self._protected[uid] = (qos, protected)
            self._write()

    def gone(self, uid: str) -> None:
        """Remove a pod."""
        if self._protected.pop(uid, (None, 0))[1]:
            self._write()

    def _write(self) -> None:
        if self._kubepods is None or self._burstable is None:
            return
        protected = list(self._protected.values())
        burstable = sum(amount for qos, amount in protected if qos is QosClass.BURSTABLE)
        (self._kubepods / MEMORY_MIN).write_text(str(sum(amount for _, amount in protected)))
        (self._burstable / MEMORY_LOW).write_text(str(burstable))


def _bytes_in(file: Path) -> int:
    try:
        text = file.read_text().strip()
    except FileNotFoundError:  # it is being removed
        return 0
    return int(text) if text.isdecimal() else 0
