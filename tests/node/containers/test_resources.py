"""Do a pod's requests and limits reach the cgroup files of the pod and its container, on real containerd?

Huge pages and cgroup v2 are covered by table tests where this machine lacks the controllers.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import cpu_capacity, task_capacity, this_node
from proto.kubernetes.resources.resources import cpu_shares, cpu_weight
from proto.pod_snapshot import PodSnapshot
from tests.node.cgroup_view import Limits, limits
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import CAP_SYS_RESOURCE, Containerd, has_capability

MI = 1 << 20
HUGE_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
PLACES = Hierarchies.of_this_node()
NODE_KEYS = {"podPidsLimit": 50, "kubeReserved": {"cpu": "100m", "memory": "1Gi", "pid": "1000"}}


def run(node: TempoletNode, name: str, own: dict[str, Any] | None = None, **spec: Any) -> PodSnapshot:
    """Run a pod with one container."""
    manifest = pod_manifest(name, **spec)
    if own:
        manifest["spec"]["containers"][0]["resources"] = own
    node.apply(manifest)
    return node.until_running(name)


def cgroups(node: TempoletNode, pod: PodSnapshot, tier: str = "burstable") -> tuple[str, str]:
    """Return the names of the pod's cgroup and its container's."""
    of_pod = f"{node.containerd.cgroup}/kubepods/{tier}/pod{pod.uid}".replace("//", "/")
    return of_pod, f"{of_pod}/{pod.containers['main'].container_id}"


def told(controller: str, cgroup: str, v1: str, v2: str) -> str:
    """Read a cgroup file by its name in this machine's cgroup version."""
    root, name = (PLACES.v2, v2) if PLACES.v2 else (PLACES.v1[controller], v1)
    return (root / cgroup.lstrip("/") / name).read_text().strip()


def oom_score(containerd: Containerd, pod: PodSnapshot) -> int:
    """Read the container's oom_score_adj."""
    pid = container_pid(containerd, pod.containers["main"].container_id)
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_all_pods_leave_what_is_reserved(node: TempoletNode) -> None:
    """By the cgroup above them, from the start."""
    node.until_started()
    of_all = f"{node.containerd.cgroup}/kubepods"
    memory, pids = this_node().memory_capacity - (1 << 30), task_capacity()[0] - 1000
    node.until(lambda: "Updated Node Allocatable limit across pods" in node.log("worker"), "the limit of all pods")
    assert told("memory", of_all, "memory.limit_in_bytes", "memory.max") == str(memory)
    assert told("pids", of_all, "pids.max", "pids.max") == str(pids)
    shares = cpu_shares(cpu_capacity() - 100)
    assert told("cpu", of_all, "cpu.shares", "cpu.weight") == str(cpu_weight(shares) if PLACES.v2 else shares)


def test_resources_of_the_pod(node: TempoletNode, containerd: Containerd) -> None:
    """They limit the pod and a container without its own, and determine QoS class and oom_score_adj."""
    whole = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}
    pod = run(node, "whole", resources=whole)
    of_pod, of_container = cgroups(node, pod)
    assert limits(of_pod).quota == limits(of_container).quota == 20000
    assert limits(of_pod).memory == limits(of_container).memory == 128 * MI
    status = pod.status
    assert (status["qosClass"], status["resources"], status["allocatedResources"]) == (
        "Burstable",
        whole,
        whole["requests"],
    )
    assert oom_score(containerd, pod) == min(999, 1000 - 1000 * 64 * MI // this_node().memory_capacity)
    node.take_away("whole")


def test_a_guaranteed_pod_by_its_own_resources(node: TempoletNode, containerd: Containerd) -> None:
    """Its container sets nothing, and is still among the last to be killed."""
    same = {"cpu": "100m", "memory": "64Mi"}
    pod = run(node, "kept", resources={"requests": same, "limits": same})
    assert limits(cgroups(node, pod, "")[0]) == Limits(limits(cgroups(node, pod, "")[0]).shares, 10000, 64 * MI)
    lowest = -997 if has_capability(CAP_SYS_RESOURCE) else int(Path("/proc/self/oom_score_adj").read_text())
    assert (pod.status["qosClass"], oom_score(containerd, pod)) == ("Guaranteed", lowest)
    node.take_away("kept")


def test_the_files_of_a_limited_container(node: TempoletNode) -> None:
    """No swap beyond its memory, the pod's PIDs limited, and an OOM kill of the whole group where the kernel supports it."""
    pod = run(node, "limited", {"limits": {"cpu": "100m", "memory": "32Mi"}, "requests": {"memory": "16Mi"}})
    of_pod, of_container = cgroups(node, pod)
    assert told("pids", of_pod, "pids.max", "pids.max") == "50"
    if this_node().swap.accounted:
        expected = "0" if PLACES.v2 else str(32 * MI)
        assert told("memory", of_container, "memory.memsw.limit_in_bytes", "memory.swap.max") == expected
    if PLACES.v2:
        assert told("memory", of_container, "", "memory.oom.group") == "1"
    node.take_away("limited")


def test_a_pod_that_starts_too_many_processes(node: TempoletNode) -> None:
    """It is stopped at podPidsLimit, and reports it."""
    node.apply(pod_manifest("forks", "for i in $(seq 200); do sleep 60 & done; wait"))
    pod = node.until_pod("forks", lambda one: one.phase == "Running" or one.restarts)
    log = node.logs / f"{pod.namespace}_{pod.name}_{pod.uid}" / "main" / "0.log"
    node.until(lambda: log.exists() and "can't fork" in log.read_text(), "no more processes")
    node.take_away("forks")


@pytest.fixture
def two_huge_pages() -> Iterator[None]:
    """Reserve two huge pages of 2 MiB on this machine, beside those that it has."""
    before = int(HUGE_PAGES.read_text())
    HUGE_PAGES.write_text(str(before + 2))
    yield
    HUGE_PAGES.write_text(str(before))


@pytest.mark.skipif(2 * MI not in this_node().huge_page_sizes, reason="this kernel has no huge pages of 2 MiB")
@pytest.mark.usefixtures("two_huge_pages")
def test_huge_pages_that_the_kernel_has(node: TempoletNode) -> None:
    """The pod runs; where the kernel has the controller, its limit is set."""
    pages = {"cpu": "100m", "memory": "32Mi", "hugepages-2Mi": "4Mi"}
    pod = run(node, "pages", {"limits": pages})
    if "hugetlb" in PLACES.v1 or PLACES.v2:
        for cgroup in cgroups(node, pod, ""):
            assert told("hugetlb", cgroup, "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max") == str(4 * MI)
    assert pod.status["containerStatuses"][0]["resources"]["limits"] == pages
    node.take_away("pages")


@pytest.mark.skipif(2 * MI not in this_node().huge_page_sizes, reason="this kernel has no huge pages of 2 MiB")
@pytest.mark.usefixtures("two_huge_pages")
def test_a_volume_of_huge_pages(node: TempoletNode) -> None:
    """The container sees a hugetlbfs of that size of page; nothing stays mounted after the pod."""
    manifest = pod_manifest("in-pages", "grep ' /pages ' /proc/mounts; sleep 3600")
    pages = {"cpu": "100m", "memory": "32Mi", "hugepages-2Mi": "4Mi"}
    manifest["spec"]["containers"][0] |= {
        "resources": {"limits": pages},
        "volumeMounts": [{"name": "pages", "mountPath": "/pages"}],
    }
    manifest["spec"]["volumes"] = [{"name": "pages", "emptyDir": {"medium": "HugePages-2Mi"}}]
    node.apply(manifest)
    pod = node.until_running("in-pages")
    log = node.logs / f"{pod.namespace}_{pod.name}_{pod.uid}" / "main" / "0.log"
    node.until(lambda: log.exists() and "hugetlbfs" in log.read_text(), "a hugetlbfs is mounted")
    assert "pagesize=2M" in log.read_text()
    node.take_away("in-pages")
    assert pod.uid not in Path("/proc/mounts").read_text()


def test_huge_pages_that_no_kernel_has(node: TempoletNode) -> None:
    """The pod is refused."""
    manifest = pod_manifest("huge")
    manifest["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Mi", "hugepages-3Mi": "3Mi"}}
    node.apply(manifest)
    pod = node.until_pod("huge", lambda one: one.phase == "Failed")
    told = "requested: 3145728, used: 0, capacity: 0"
    assert pod.message == f"Pod was rejected: Node didn't have enough resource: hugepages-3Mi, {told}"
    assert pod.reason == "OutOfhugepages-3Mi"
    node.take_away("huge")
