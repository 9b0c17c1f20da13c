"""What `test_orphans` runs as our units: an orphaned pod is made, found, left to the worker, undone and removed; each step says how it ended."""

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from activities.files import mounts
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroups import Cgroups
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources
from proto.temporal.pod import PodKey
from tests.activities.volume_node import volume_services
from worker.daemon.config import NodeConfig
from worker.host.orphaned_pods import undo_orphaned_pods
from worker.poller.runtime.orphaned_pods import LeftToWorkerError, remover

POD: Final = PodKey("default", "web", "8f07a796-8f24-4c3c-a258-1bae6e3f4c00")
ROOT: Final = "/orphans"
NOBODY: Final = 65534


def make(folder: Path) -> str:
    """Leave a pod with a process of another user in its cgroup, and a volume in memory."""
    volume = folder / "kubelet/pods" / POD.uid / "volumes/kubernetes.io~empty-dir/memory"
    volume.mkdir(parents=True)
    mounts.mount("tmpfs", volume, "tmpfs")
    cgroups = Cgroups(ROOT)
    cgroups.make_tiers()
    cgroup = cgroups.make_pod(POD.uid, QosClass.BURSTABLE, PodResources(cpu_shares=2))
    process = subprocess.Popen(["sleep", "1000"], user=NOBODY, start_new_session=True)
    for one in filter(Path.is_dir, Hierarchies.of_this_node().folders(cgroup)):
        (one / "cgroup.procs").write_text(str(process.pid))
    return "made"


def remove_directly(_: Path) -> str:
    """Kill and remove the cgroup."""
    return "removed" if not Cgroups(ROOT).remove_pod(POD.uid) else "left"


def remove(folder: Path) -> str:
    """Remove the pod as the poller does."""
    config = NodeConfig("n", root_dir=folder / "kubelet", pod_logs_dir=folder / "logs", cgroup_root=ROOT)
    try:
        remover(config)(POD)
    except LeftToWorkerError as left:
        return f"left to the worker: {left}"
    return f"removed, its folder is {'there' if (folder / 'kubelet/pods' / POD.uid).exists() else 'gone'}"


def undo(folder: Path) -> str:
    """Undo it as the worker does."""

    async def undo_all() -> str:
        async with volume_services(folder) as services:
            node = replace(services, cgroups=Cgroups(ROOT))
            while node.cgroups.pods_left():
                await undo_orphaned_pods(node)
            return f"mounted are {mounts.mounts_below(folder)}"

    return asyncio.run(undo_all())


STEPS: Final = {one.__name__: one for one in (make, remove_directly, remove, undo)}


def main(step: str, folder: Path) -> None:
    """Do a step, and write down how it ended."""
    try:
        said = STEPS[step](folder)
    except OSError as error:
        said = f"{type(error).__name__}: {error.strerror}"
    (folder / "said").write_text(said)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
