"""The pods' cgroups: `<cgroup root>/kubepods/{burstable,besteffort}/pod<uid>`, named as by the cgroupfs driver.

The worker creates the QoS tiers when it starts. RunPodSandbox creates a pod's cgroup before the sandbox, because
processes that run before a limit is set are not limited. RemovePodDirectories removes it after the last container.
Works on v1 (a hierarchy for each controller) and v2. Processes left in a pod's cgroup are killed.

Everything may block for milliseconds: call it in a thread.
"""

import contextlib
import errno
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from activities.execution.timings import Timings
from activities.files.pod_paths import plain_name
from activities.machine.cgroup_hierarchies import ENABLED, LIMITED, Hierarchies
from activities.machine.memory_protection import MemoryProtection
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import MAX_SHARES, MIN_SHARES, PodResources, cpu_weight

KUBEPODS: Final = "kubepods"
_TIERS: Final = {QosClass.GUARANTEED: "", QosClass.BURSTABLE: "burstable", QosClass.BEST_EFFORT: "besteffort"}
_NO_MEMORY_LIMIT: Final = 2**62
"""Bytes. Without a limit, cgroup v1 reports the largest number of whole pages."""


class Cgroups:
    """The cgroups of the node's pods; `root` is KubeletConfiguration cgroupRoot."""

    def __init__(
        self,
        root: str = "/",
        *,
        hierarchies: Hierarchies | None = None,
        pod_pids_limit: int = -1,
        memory_qos: bool = False,
        timings: Timings | None = None,
    ) -> None:
        """Take the root, KubeletConfiguration's podPidsLimit, the gate MemoryQoS, and callbacks for durations."""
        self._timings = timings or Timings()
        self.root = str(PurePosixPath("/") / root / KUBEPODS)
        if ".." in PurePosixPath(self.root).parts:
            raise ValueError(f"cgroupRoot {root!r} leads upward; name a cgroup below the node's root")
        self._hierarchies = hierarchies or Hierarchies.of_this_node()
        self._pod_pids_limit = pod_pids_limit
        self._burstable: dict[str, int] = {}
        self._weighing = threading.Lock()
        unified = self._hierarchies.v2 if memory_qos else None
        tiers = [unified / self.root.lstrip("/") / name for name in ("", "burstable")] if unified else [None, None]
        self._protection = MemoryProtection(*tiers)

    @property
    def v2(self) -> bool:
        """Whether the node runs cgroup v2."""
        return self._hierarchies.v2 is not None

    def pod_cgroup(self, pod_uid: str, qos: QosClass) -> str:
        """Return a pod's cgroup as the runtime takes it for cgroup_parent."""
        return str(PurePosixPath(self.root) / _TIERS[qos] / f"pod{plain_name(pod_uid, 'pod uid')}")

    def make_tiers(self) -> None:
        """Create kubepods and the two tiers; best-effort pods together get the least weight."""
        for qos in (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT):
            tier = str(PurePosixPath(self.root) / _TIERS[qos])
            shares = MIN_SHARES if qos is QosClass.BEST_EFFORT else None
            self._make(tier, {} if shares is None else self._cpu_files(shares))
        self._weigh_burstable(self._burstable_pods_found())
        with self._weighing:
            self._protection.begin()

    def remove_tiers(self) -> None:
        """Remove the tiers and kubepods if they are empty, when the node is taken down."""
        for tier in ("besteffort", "burstable", ""):
            for folder in self._hierarchies.folders(str(PurePosixPath(self.root) / tier)):
                with contextlib.suppress(OSError):  # not empty or not there
                    folder.rmdir()

    def make_pod(self, pod_uid: str, qos: QosClass, resources: PodResources) -> str:
        """Create a pod's cgroup with its limits, or set them again; returns its name. Raises OSError."""
        cgroup, start = self.pod_cgroup(pod_uid, qos), time.perf_counter()
        self._make(cgroup, self._pod_files(resources))
        self._timings.cgroup("create", time.perf_counter() - start)
        if qos is QosClass.BURSTABLE:
            self._weigh_burstable({pod_uid: resources.cpu_shares})
        with self._weighing:
            self._protection.pod(pod_uid, qos, resources.unified)
        return cgroup

    def resize_pod(self, pod_uid: str, qos: QosClass, resources: PodResources, *, only_raise: bool) -> None:
        """Set the limits of a pod's cgroup again, or only raise those that are too low. Raises OSError."""
        cgroup, start = self.pod_cgroup(pod_uid, qos), time.perf_counter()
        for controller, files in self._pod_files(resources).items():
            if folder := self._folder(controller, cgroup):
                _write_files(folder, tuple(one for one in files if not only_raise or _raises(folder, *one)))
        self._timings.cgroup("update", time.perf_counter() - start)
        if qos is QosClass.BURSTABLE:
            least = self._burstable.get(pod_uid, 0) if only_raise else 0
            self._weigh_burstable({pod_uid: max(least, resources.cpu_shares)})
        with self._weighing:
            self._protection.pod(pod_uid, qos, resources.unified)

    def pod_memory(self, pod_uid: str, qos: QosClass) -> tuple[int, int]:
        """Read the memory limit (0: none) and usage of a pod's cgroup, in bytes. Raises OSError."""
        folder = self._folder("memory", self.pod_cgroup(pod_uid, qos))
        if folder is None:
            return 0, 0
        limit, usage = (
            ("memory.max", "memory.current") if self.v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        found = _amount((folder / limit).read_text())
        return 0 if found >= _NO_MEMORY_LIMIT else int(found), int((folder / usage).read_text())

    def _folder(self, controller: str, cgroup: str) -> Path | None:
        """Return a cgroup's folder for a controller; None on a node without that controller."""
        root = self._hierarchies.v2 or self._hierarchies.v1.get(controller)
        return root / cgroup.lstrip("/") if root else None

    def remove_pod(self, pod_uid: str) -> list[Path]:
        """Kill what runs in a pod's cgroup and remove it from every tier; a missing one is fine.

        Returns the folders that the kernel still holds: a killed process takes a moment to go, so try again.
        """
        start = time.perf_counter()
        folders = [folder for qos in _TIERS for folder in self._hierarchies.folders(self.pod_cgroup(pod_uid, qos))]
        left = [folder for folder in folders if folder.is_dir() and not _removed(folder)]
        self._timings.cgroup("destroy", time.perf_counter() - start)
        if not left and pod_uid in self._burstable:
            self._weigh_burstable({pod_uid: 0})
        if not left:
            with self._weighing:
                self._protection.gone(pod_uid)
        return left

    def _weigh_burstable(self, changed: Mapping[str, int]) -> None:
        """Give the burstable tier the sum of its pods' shares (qos_container_manager_linux.go).

        A pod that requests no CPU has the minimum and is not counted.
        """
        with self._weighing:
            self._burstable.update(changed)
            for uid in [uid for uid, shares in self._burstable.items() if shares == 0]:
                del self._burstable[uid]
            asked = sum(shares for shares in self._burstable.values() if shares > MIN_SHARES)
            shares = max(MIN_SHARES, min(asked, MAX_SHARES))
            tier = str(PurePosixPath(self.root) / _TIERS[QosClass.BURSTABLE])
            self._make(tier, self._cpu_files(shares))

    def _burstable_pods_found(self) -> dict[str, int]:
        """Read the shares of the pods that an earlier worker left running."""
        root = self._hierarchies.v2 or self._hierarchies.v1.get("cpu")
        if root is None:
            return {}
        tier = root / self.root.lstrip("/") / _TIERS[QosClass.BURSTABLE]
        return {pod.name.removeprefix("pod"): _shares_of(pod) for pod in tier.glob("pod*") if pod.is_dir()}

    def _make(self, cgroup: str, files: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
        if self._hierarchies.v2:
            folder = self._hierarchies.v2 / cgroup.lstrip("/")
            _make_unified(self._hierarchies.v2, folder)
            for controller in LIMITED:
                _write_files(folder, files.get(controller, ()))
            return
        for controller in LIMITED:
            if found := self._folder(controller, cgroup):
                found.mkdir(parents=True, exist_ok=True)
                _write_files(found, files.get(controller, ()))

    def _pod_files(self, resources: PodResources) -> dict[str, tuple[tuple[str, str], ...]]:
        cpu = list(self._cpu_files(resources.cpu_shares)["cpu"])
        if resources.cpu_period is not None and resources.cpu_quota is not None:
            if self.v2:
                quota = str(resources.cpu_quota) if resources.cpu_quota > 0 else "max"
                cpu.append(("cpu.max", f"{quota} {resources.cpu_period}"))
            else:
                cpu.append(("cpu.cfs_period_us", str(resources.cpu_period)))
                cpu.append(("cpu.cfs_quota_us", str(resources.cpu_quota or -1)))
        memory = list(resources.unified.items()) if self.v2 else []
        if resources.memory_limit:
            memory.append(("memory.max" if self.v2 else "memory.limit_in_bytes", str(resources.memory_limit)))
        files = {"cpu": tuple(cpu), "memory": tuple(memory)}
        if self._has_huge_pages():
            suffix = "max" if self.v2 else "limit_in_bytes"
            files["hugetlb"] = tuple((f"hugetlb.{size}.{suffix}", str(limit)) for size, limit in resources.huge_pages)
        if self._pod_pids_limit > 0:
            files["pids"] = (("pids.max", str(self._pod_pids_limit)),)
        return files

    def _has_huge_pages(self) -> bool:
        """Report whether the kernel has the hugetlb controller."""
        if self._hierarchies.v2 is None:
            return "hugetlb" in self._hierarchies.v1
        return "hugetlb" in (self._hierarchies.v2 / "cgroup.controllers").read_text().split()

    def _cpu_files(self, shares: int) -> dict[str, tuple[tuple[str, str], ...]]:
        return {"cpu": (("cpu.weight", str(cpu_weight(shares))) if self.v2 else ("cpu.shares", str(shares)),)}


def _shares_of(folder: Path) -> int:
    """Read a cgroup's shares, on v2 converted from its weight (cgroup_v2_manager_linux.go)."""
    try:
        if (weight := folder / "cpu.weight").exists():
            return (int(weight.read_text()) - 1) * 262142 // 9999 + MIN_SHARES
        return int((folder / "cpu.shares").read_text())
    except FileNotFoundError:  # it is being removed
        return 0


def _raises(folder: Path, name: str, value: str) -> bool:
    """Report whether a file of a cgroup has a smaller value than this."""
    return _amount((folder / name).read_text()) < _amount(value)


def _amount(text: str) -> float:
    """Parse an amount, or the quota in a quota and period; no limit is larger than any."""
    amount = text.split(maxsplit=1)[0]
    return math.inf if amount in ("max", "-1") else int(amount)


def _write_files(folder: Path, files: tuple[tuple[str, str], ...]) -> None:
    for name, value in files:
        (folder / name).write_text(value)


def _make_unified(root: Path, folder: Path) -> None:
    """Create a v2 cgroup and enable the controllers in each parent."""
    folder.mkdir(parents=True, exist_ok=True)
    available = set((root / "cgroup.controllers").read_text().split())
    wanted = " ".join(f"+{name}" for name in ENABLED if name in available)
    for parent in reversed(folder.relative_to(root).parents):
        control = root / parent / "cgroup.subtree_control"
        if not {name.lstrip("+") for name in wanted.split()} <= set(control.read_text().split()):
            control.write_text(wanted)


def _removed(folder: Path) -> bool:
    """Kill what runs in a cgroup and below, then try to remove it; False while the kernel still holds it."""
    for pid in pids_below(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        for path, _, _ in os.walk(folder, topdown=False):
            Path(path).rmdir()
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY, errno.ENOENT):
            return False
        raise
    return True


def pids_below(folder: Path) -> Iterator[int]:
    """List the processes in a cgroup and below."""
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):  # it vanished meanwhile, or is threaded (v2)
            for line in (Path(path) / "cgroup.procs").read_text().split():
                if (pid := int(line)) > 1:
                    yield pid
