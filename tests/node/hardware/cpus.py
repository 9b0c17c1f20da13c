"""A node that keeps one CPU for all, and pods that ask for the others."""

from pathlib import Path
from typing import Any, Final

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import cpu_capacity
from proto.pod_snapshot import PodSnapshot
from tests.node.cgroup_view import limits
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode, pod_manifest

CPUS: Final = cpu_capacity() // 1000
KEYS: Final = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "cpuManagerReconcilePeriod": "1s"}
ALL: Final = f"0-{CPUS - 1}"
OTHERS: Final = f"1-{CPUS - 1}" if CPUS > 2 else "1"
"""Those that are not reserved."""


def whole(name: str, cpus: int = CPUS - 1) -> dict[str, Any]:
    """Build a guaranteed pod that asks for so many CPUs, all that are left by default."""
    manifest = pod_manifest(name)
    amounts = {"cpu": str(cpus), "memory": "16Mi"}
    manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return manifest


def allowed(node: TempoletNode, pod: PodSnapshot) -> str:
    """Return the CPUs that the kernel lets a pod's container use."""
    (container,) = pod.containers.values()
    status = Path(f"/proc/{container_pid(node.containerd, container.container_id)}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


def quotas(node: TempoletNode, pod: PodSnapshot) -> tuple[int, int]:
    """Return the quotas of a pod's container and of the pod; -1 is none."""
    (container,) = pod.containers.values()
    pid = container_pid(node.containerd, container.container_id)
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    version_2 = Hierarchies.of_this_node().v2
    cgroup = next(
        path for _, kinds, path in (line.split(":", 2) for line in lines) if version_2 or "cpu" in kinds.split(",")
    )
    return limits(cgroup).quota, limits(str(Path(cgroup).parent)).quota
