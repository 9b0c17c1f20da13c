"""The pods' cgroups: made, limited and removed, with the names of `cgroup_names`.

The worker creates the QoS tiers when it starts. RunPodSandbox creates a pod's cgroup before the sandbox, because
processes that run before a limit is set are not limited. RemovePodDirectories removes it after the last container.
Works on v1 (a hierarchy for each controller) and v2. With the systemd driver each cgroup is a slice, too: it is made and
its limits are told to systemd first, then the files are written as with cgroupfs (as opencontainers/cgroups does).
Processes left in a pod's cgroup are killed.

Everything may block for milliseconds, for systemd's answer longer: call it in a thread.
"""

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from activities.execution.timings import Timings
from activities.files.pod_paths import UnsafeName
from activities.machine.cgroup_files import (
    Files,
    LimitFiles,
    joined,
    kept_if_raising,
    make_unified,
    read_memory,
    shares_of,
    write_files,
)
from activities.machine.cgroup_hierarchies import LIMITED, Hierarchies
from activities.machine.cgroup_names import CgroupNames
from activities.machine.memory_protection import MemoryProtection
from activities.machine.node_cgroups import NodeCgroups, has_huge_pages
from activities.machine.slices import Slices
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import MAX_SHARES, MIN_SHARES, PodResources


@dataclass(frozen=True, slots=True)
class CgroupSettings:
    """Settings of KubeletConfiguration that concern all pods' cgroups."""

    pod_pids_limit: int = -1
    memory_qos: bool = False
    """The gate MemoryQoS; only with cgroup v2."""


class Cgroups:
    """The cgroups of the node's pods."""

    def __init__(
        self,
        names: CgroupNames | str = "/",
        *,
        hierarchies: Hierarchies | None = None,
        settings: CgroupSettings | None = None,
        timings: Timings | None = None,
        slices: Slices | None = None,
    ) -> None:
        """Take the names, or cgroupRoot for those of the cgroupfs driver, and callbacks for durations.

        `slices` None: this machine's systemd, if the driver is systemd.
        """
        self._timings = timings or Timings()
        self.names = names if isinstance(names, CgroupNames) else CgroupNames.below(names)
        self._hierarchies = hierarchies or Hierarchies.of_this_node()
        self._slices = (slices or Slices(v2=self.v2)) if self.names.systemd else None
        self._settings = settings or CgroupSettings()
        self._burstable: dict[str, int] = {}
        self._weighing = threading.Lock()
        unified = self._hierarchies.v2 if self._settings.memory_qos else None
        self._node = NodeCgroups(self.names, self._hierarchies, self._slices)
        self._protection = MemoryProtection(unified, self.names, self._slices)

    @property
    def node(self) -> NodeCgroups:
        """The cgroups above and beside the pods."""
        return self._node

    @property
    def v2(self) -> bool:
        """Whether the node runs cgroup v2."""
        return self._hierarchies.v2 is not None

    def pod_cgroup(self, pod_uid: str, qos: QosClass) -> str:
        """Return a pod's cgroup as the runtime takes it for cgroup_parent."""
        return self.names.pod(pod_uid, qos)

    def is_guaranteed(self, pod_uid: str) -> bool:
        """Report whether a pod has a cgroup among those of guaranteed pods."""
        try:
            cgroup = self.pod_cgroup(pod_uid, QosClass.GUARANTEED)
        except (UnsafeName, ValueError):
            return False
        return any(folder.is_dir() for folder in self._hierarchies.folders(cgroup))

    def make_tiers(self) -> None:
        """Create kubepods and the two tiers; best-effort pods together get the least weight."""
        for qos in QosClass:
            self._begin(self.names.tier(qos))
            self._make(self.names.tier(qos), self._files.of_shares(MIN_SHARES) if qos is QosClass.BEST_EFFORT else {})
        self._weigh_burstable(self._burstable_pods_found())
        with self._weighing:
            self._protection.begin()

    def remove_tiers(self) -> None:
        """Remove the tiers and kubepods if they are empty, when the node is taken down; slices of cgroupRoot, too."""
        above = self.names.above() if self._slices else ()
        for cgroup in (*(self.names.tier(qos) for qos in reversed(QosClass)), *above):
            folders = [one for one in self._hierarchies.folders(cgroup) if one.is_dir()]
            if self._slices and not any(folders_in(one) or any(pids_below(one)) for one in folders):
                self._slices.stop(cgroup)
            for folder in folders:
                with contextlib.suppress(OSError):  # not empty or not there
                    folder.rmdir()

    def pods_left(self) -> set[str]:
        """Return the uids of pods that have cgroups."""
        return {self.names.pod_uid(folder.name, qos) for qos, folder in pod_folders(self.names, self._hierarchies)}

    def make_pod(self, pod_uid: str, qos: QosClass, resources: PodResources) -> str:
        """Create a pod's cgroup with its limits, or set them again; returns its name. Raises OSError."""
        cgroup, start = self.pod_cgroup(pod_uid, qos), time.perf_counter()
        if any(limit for _, limit in resources.huge_pages):
            self._node.allow_huge_pages()
        self._begin(cgroup)
        self._make(cgroup, self._files.of_pod(resources))
        self._timings.cgroup("create", time.perf_counter() - start)
        if qos is QosClass.BURSTABLE:
            self._weigh_burstable({pod_uid: resources.cpu_shares})
        with self._weighing:
            self._protection.pod(pod_uid, qos, resources.unified)
        return cgroup

    def resize_pod(self, pod_uid: str, qos: QosClass, resources: PodResources, *, only_raise: bool) -> None:
        """Set the limits of a pod's cgroup again, or only raise those that are too low. Raises OSError."""
        cgroup, start = self.pod_cgroup(pod_uid, qos), time.perf_counter()
        wanted = {one: files for one, files in self._files.of_pod(resources).items() if self._folder(one, cgroup)}
        kept = wanted
        if only_raise:
            kept = {one: kept_if_raising(self._found(one, cgroup), files) for one, files in wanted.items()}
        if self._slices:
            self._slices.limit(cgroup, joined(kept, tuple(kept)), dict(joined(wanted, tuple(wanted))))
        for controller, files in kept.items():
            write_files(self._found(controller, cgroup), files)
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
        return read_memory(folder, v2=self.v2)

    def remove_pod(self, pod_uid: str) -> list[Path]:
        """Kill what runs in a pod's cgroup and remove it from every tier; a missing one is fine. Raises OSError.

        Returns the folders that the kernel still holds: a killed process takes a moment to go, so try again.
        """
        start = time.perf_counter()
        cgroups = [self.pod_cgroup(pod_uid, qos) for qos in QosClass]
        folders = [folder for cgroup in cgroups for folder in self._hierarchies.folders(cgroup)]
        for folder in folders:
            kill_below(folder)
        if self._slices:
            for cgroup in cgroups:  # also without a folder: an earlier try may have got so far
                self._slices.stop(cgroup)
        left = [folder for folder in folders if folder.is_dir() and not _removed(folder)]
        self._timings.cgroup("destroy", time.perf_counter() - start)
        if not left and pod_uid in self._burstable:
            self._weigh_burstable({pod_uid: 0})
        if not left:
            with self._weighing:
                self._protection.gone(pod_uid)
        return left

    @property
    def _files(self) -> LimitFiles:
        return LimitFiles(
            self.v2, has_huge_pages(self._hierarchies), self._settings.pod_pids_limit, whole_percents=self.names.systemd
        )

    def _folder(self, controller: str, cgroup: str) -> Path | None:
        """Return a cgroup's folder for a controller; None on a node without that controller."""
        root = self._hierarchies.v2 or self._hierarchies.v1.get(controller)
        return root / cgroup.lstrip("/") if root else None

    def _found(self, controller: str, cgroup: str) -> Path:
        folder = self._folder(controller, cgroup)
        assert folder is not None
        return folder

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
            self._make(self.names.tier(QosClass.BURSTABLE), self._files.of_shares(shares))

    def _burstable_pods_found(self) -> dict[str, int]:
        """Read the shares of the pods that an earlier worker left running."""
        tier = self._folder("cpu", self.names.tier(QosClass.BURSTABLE))
        pods = tier.iterdir() if tier and tier.is_dir() else ()
        uids = {pod: self.names.pod_uid(pod.name, QosClass.BURSTABLE) for pod in pods if pod.is_dir()}
        return {uid: shares_of(pod) for pod, uid in uids.items() if uid}

    def _begin(self, cgroup: str) -> None:
        """Make a cgroup's slice, if cgroups are slices; an existing one is fine."""
        if self._slices:
            self._slices.begin(cgroup)

    def _make(self, cgroup: str, files: Mapping[str, Files]) -> None:
        if self._slices and (told := joined(files, LIMITED)):
            self._slices.limit(cgroup, told, dict(told))
        if self._hierarchies.v2:
            folder = self._hierarchies.v2 / cgroup.lstrip("/")
            make_unified(self._hierarchies.v2, folder)
            for controller in LIMITED:
                write_files(folder, files.get(controller, ()))
            return
        for controller in LIMITED:
            if found := self._folder(controller, cgroup):
                found.mkdir(parents=True, exist_ok=True)
                write_files(found, files.get(controller, ()))


def pods_running(names: CgroupNames, hierarchies: Hierarchies) -> list[str]:
    """List the cgroups of pods, by these names, in which processes are; whatever made them."""
    folders = pod_folders(names, hierarchies)
    return sorted({f"{names.tier(qos)}/{folder.name}" for qos, folder in folders if any(pids_below(folder))})


def pod_folders(names: CgroupNames, hierarchies: Hierarchies) -> Iterator[tuple[QosClass, Path]]:
    """List the folders of the pods' cgroups, by these names, in every hierarchy."""
    for qos in QosClass:
        for tier in hierarchies.folders(names.tier(qos)):
            pods = tier.iterdir() if tier.is_dir() else ()
            yield from ((qos, pod) for pod in pods if names.pod_uid(pod.name, qos))


def folders_in(folder: Path) -> bool:
    """Report whether a cgroup has cgroups below it."""
    return any(one.is_dir() for one in folder.iterdir())


def kill_below(folder: Path) -> None:
    """Kill what runs in a cgroup and below."""
    for pid in pids_below(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _removed(folder: Path) -> bool:
    """Kill what runs in a cgroup and below, then try to remove it; False while the kernel still holds it."""
    kill_below(folder)
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
