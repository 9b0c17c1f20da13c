"""Memory protection of the cgroups above the pods, without which a pod's own has no effect (feature gate MemoryQoS).

Called by `cgroups` whenever a pod's cgroup is created, resized or removed; cgroup v2 only. Children together are
protected no more than their parent: kubepods gets the sum of all pods' requests, the burstable tier the sum of its own
(pkg/kubelet/cm/qos_container_manager_linux.go setMemoryQoS). Blocks on files, and on systemd where cgroups are slices.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from activities.machine.cgroup_names import CgroupNames
from activities.machine.slices import Slices
from proto.kubernetes.resources.memory import MEMORY_LOW, MEMORY_MIN
from proto.kubernetes.resources.qos import QosClass

_FILE_OF: Final = {QosClass.GUARANTEED: MEMORY_MIN, QosClass.BURSTABLE: MEMORY_LOW}


class MemoryProtection:
    """The sums of one node; does nothing on v1 or without the gate."""

    def __init__(self, unified: Path | None, names: CgroupNames, slices: Slices | None = None) -> None:
        """Take the v2 hierarchy (None: disabled), the names of cgroups, and what tells systemd."""
        self._unified, self._names, self._slices = unified, names, slices
        self._protected: dict[str, tuple[QosClass, int]] = {}

    def begin(self) -> None:
        """Read the protection of pods that an earlier worker left, and set the sums."""
        if self._unified is None:
            return
        for qos, file in _FILE_OF.items():
            for pod in (self._unified / self._names.tier(qos).lstrip("/")).iterdir():
                if uid := self._names.pod_uid(pod.name, qos):
                    self._protected[uid] = (qos, _bytes_in(pod / file))
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
        if self._unified is None:
            return
        protected = list(self._protected.values())
        burstable = sum(amount for qos, amount in protected if qos is QosClass.BURSTABLE)
        sums = {QosClass.GUARANTEED: sum(amount for _, amount in protected), QosClass.BURSTABLE: burstable}
        for qos, amount in sums.items():
            cgroup, file = self._names.tier(qos), (_FILE_OF[qos], str(amount))
            if self._slices:
                self._slices.limit(cgroup, (file,), {})
            (self._unified / cgroup.lstrip("/") / file[0]).write_text(file[1])


def _bytes_in(file: Path) -> int:
    try:
        text = file.read_text().strip()
    except FileNotFoundError:  # it is being removed
        return 0
    return int(text) if text.isdecimal() else 0
