"""Does the kernel get the kubelet's values for a pod and its containers?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.oom_score import oom_score_adj
from proto.kubernetes.resources.pod_totals import pod_requests
from proto.kubernetes.resources.resources import (
    ContainerResources,
    PodResources,
    container_resources,
    cpu_quota,
    cpu_shares,
    cpu_weight,
    overhead_resources,
    pod_resources,
    sandbox_resources,
)

MI = 2**20
NODE = NodeResources(memory_capacity=8_000_000_000)
TUNED = NodeResources(memory_capacity=8_000_000_000, cpu_cfs_quota_period=timedelta(milliseconds=5))
UNCAPPED = NodeResources(memory_capacity=8_000_000_000, cpu_cfs_quota=False)


def want(requests: str = "", limits: str = "") -> dict[str, Any]:
    """Build resources from `cpu,memory`; either part may be empty."""
    lists = {"requests": requests, "limits": limits}
    named = {kind: dict(zip(("cpu", "memory"), text.split(","), strict=False)) for kind, text in lists.items()}
    return {kind: {name: amount for name, amount in one.items() if amount} for kind, one in named.items()}


def pod_of(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    """Build a pod with containers with these resources."""
    return {
        "metadata": {},
        "spec": {
            "containers": [{"name": f"c{i}", "resources": one} for i, one in enumerate(containers)],
            "initContainers": [{"name": f"i{i}", "resources": one} for i, one in enumerate(init)],
        }
        | spec,
    }


BURSTABLE = pod_of(want("100m,100Mi", "200m,200Mi"))
PARTIAL = pod_of(want("100m,100Mi", "200m,200Mi"), want("100m,100Mi"))
OVERHEAD = {"cpu": "100m", "memory": "10Mi"}
GUARANTEED = pod_of(want("100m,100Mi", "100m,100Mi"))


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        pytest.param(pod_of(want()), NODE, PodResources(2), id="besteffort"),
        pytest.param(pod_of(want("100m,100Mi")), NODE, PodResources(102), id="burstable-no-limits"),
        pytest.param(BURSTABLE, NODE, PodResources(102, 20000, 100000, 200 * MI), id="burstable-with-limits"),
        pytest.param(BURSTABLE, UNCAPPED, PodResources(102, -1, 100000, 200 * MI), id="burstable-no-cpu-enforcement"),
        pytest.param(BURSTABLE, TUNED, PodResources(102, 1000, 5000, 200 * MI), id="burstable-with-tuned-quota"),
        pytest.param(PARTIAL, NODE, PodResources(204), id="burstable-partial-limits"),
        pytest.param(
            pod_of(want("100m,100Mi", "200m,200Mi"), init=(want("100m", "100m"),)),
            NODE,
            PodResources(102, 20000, 100000),
            id="an-init-container-without-a-memory-limit-leaves-memory-open",
        ),
        pytest.param(
            pod_of(want("100m,100Mi", "200m,200Mi"), init=(want("2,100Mi", "2,1Gi"),)),
            NODE,
            PodResources(2048, 200000, 100000, 1024 * MI),
            id="a-hungry-init-container-sets-the-pod's-size",
        ),
        pytest.param(GUARANTEED, NODE, PodResources(102, 10000, 100000, 100 * MI), id="guaranteed"),
        pytest.param(GUARANTEED, UNCAPPED, PodResources(102, -1, 100000, 100 * MI), id="guaranteed-no-cpu-enforcement"),
        pytest.param(GUARANTEED, TUNED, PodResources(102, 1000, 5000, 100 * MI), id="guaranteed-with-tuned-quota"),
        pytest.param(
            pod_of(want("100m,100Mi", "200m,200Mi"), overhead=OVERHEAD),
            NODE,
            PodResources(204, 30000, 100000, 210 * MI),
            id="with-an-overhead",
        ),
        pytest.param(
            pod_of(want("100m,100Mi"), overhead=OVERHEAD), NODE, PodResources(204), id="an-overhead-is-no-limit"
        ),
        pytest.param(pod_of(want(), overhead=OVERHEAD), NODE, PodResources(2), id="best-effort-with-an-overhead"),
    ],
)
def test_pod_cgroup(pod: dict[str, Any], node: NodeResources, expected: PodResources) -> None:
    """The rows of pkg/kubelet/cm/helpers_linux_test.go TestResourceConfigForPod without pod-level resources."""
    assert pod_resources(pod, node) == expected


@pytest.mark.parametrize(
    ("resources", "node", "expected"),
    [
        pytest.param(want(), NODE, ContainerResources(2, 0, 100000, 0, 1000), id="nothing-asked"),
        pytest.param(
            want("1,100Mi", "2,200Mi"), NODE, ContainerResources(1024, 200000, 100000, 200 * MI, 987), id="both-asked"
        ),
        pytest.param(
            want("", "2"), NODE, ContainerResources(2048, 200000, 100000, 0, 999), id="limit-stands-for-request"
        ),
        pytest.param(
            want("0", "2"), NODE, ContainerResources(2, 200000, 100000, 0, 999), id="request-of-zero-is-a-request"
        ),
        pytest.param(want("1", "1"), UNCAPPED, ContainerResources(1024, 0, 0, 0, 999), id="quota-switched-off"),
        pytest.param(
            want("100m,100Mi", "100m,100Mi"),
            NODE,
            ContainerResources(102, 10000, 100000, 100 * MI, -997),
            id="guaranteed-dies-last",
        ),
    ],
)
def test_container(resources: dict[str, Any], node: NodeResources, expected: ContainerResources) -> None:
    """The values in CreateContainer."""
    pod = pod_of(resources)
    assert container_resources(pod, pod["spec"]["containers"][0], node) == expected


def test_sandbox_is_told_of_the_whole_pod() -> None:
    """The runtime gets the sums, whether or not every container has a limit."""
    assert sandbox_resources(PARTIAL, NODE) == ContainerResources(204, 20000, 100000, 200 * MI, 0)


def test_requests_add_up_exactly() -> None:
    """Three times a third of a milli-CPU is not one milli-CPU more."""
    assert pod_requests(pod_of(*[want("0.3m")] * 10))["cpu"].milli == 3


def beside(resources: dict[str, Any]) -> dict[str, Any]:
    """Mark resources as those of a sidecar for `with_sidecars`."""
    return resources | {"beside": True}


def with_sidecars(*init: dict[str, Any], main: dict[str, Any]) -> dict[str, Any]:
    """Build a pod with one container; the init containers marked by `beside` are sidecars."""
    pod = pod_of(main, init=init)
    for one in pod["spec"]["initContainers"]:
        if one["resources"].pop("beside", False):
            one["restartPolicy"] = "Always"
    return pod


@pytest.mark.parametrize(
    ("init", "milli"),
    [
        pytest.param((beside(want("100m")), beside(want("200m"))), 800, id="sidecars-add-up-with-the-containers"),
        pytest.param((want("700m"),), 700, id="an-init-container-that-ends-counts-alone"),
        pytest.param((beside(want("100m")), want("700m")), 800, id="together-with-the-sidecars-before-it"),
        pytest.param((want("700m"), beside(want("100m"))), 700, id="not-with-those-after-it"),
        pytest.param((beside(want("100m")), want("400m"), beside(want("200m"))), 800, id="the-most-of-any-moment"),
    ],
)
def test_sidecars_run_beside(init: tuple[dict[str, Any], ...], milli: int) -> None:
    """Requests of a pod whose container requests 500m (component-helpers AggregateContainerRequests)."""
    assert pod_requests(with_sidecars(*init, main=want("500m")))["cpu"].milli == milli


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        pytest.param(
            (beside(want("100m,100Mi", "100m,100Mi")),),
            PodResources(204, 30000, 100000, 300 * MI),
            id="limits-of-sidecars-add-up",
        ),
        pytest.param((beside(want("100m,100Mi")),), PodResources(204), id="one-without-limits-opens-the-pod"),
        pytest.param(
            (beside(want("100m,100Mi", "100m,100Mi")), beside(want())),
            PodResources(204, 30000, 100000, 300 * MI),
            id="but-not-behind-one-that-has-them",
        ),
    ],
)
def test_pod_cgroup_with_sidecars(init: tuple[dict[str, Any], ...], expected: PodResources) -> None:
    """A resource counts as declared by the running sum of sidecars, as in the kubelet."""
    assert pod_resources(with_sidecars(*init, main=want("100m,100Mi", "200m,200Mi")), NODE) == expected


@pytest.mark.parametrize(
    ("own", "score"),
    [
        pytest.param(want(",2G"), 500, id="one-that-asks-for-more-than-the-containers"),
        pytest.param(want(",100M"), 750, id="one-that-asks-for-less-dies-no-sooner-than-they"),
    ],
)
def test_oom_score_of_a_sidecar(own: dict[str, Any], score: int) -> None:
    """Beside a container that requests a quarter of the node's memory (pkg/kubelet/qos/policy.go)."""
    pod = with_sidecars(beside(own), main=want(",1G"))
    assert oom_score_adj(pod, pod["spec"]["initContainers"][0], 4_000_000_000) == score


@pytest.mark.parametrize(
    ("milli", "quota"),
    [(0, 0), (5, 1000), (9, 1000), (10, 1000), (200, 20000), (500, 50000), (1000, 100000), (1500, 150000)],
)
def test_quota(milli: int, quota: int) -> None:
    """The rows of TestMilliCPUToQuota."""
    assert cpu_quota(milli, timedelta(milliseconds=100)) == quota


@pytest.mark.parametrize(
    ("milli", "shares", "weight"),
    [
        pytest.param(0, 2, 1, id="none-is-the-least"),
        pytest.param(1, 2, 1, id="the-least-there-is"),
        pytest.param(1000, 1024, 39, id="one-processor"),
        pytest.param(1_000_000, 262144, 10000, id="capped-by-the-kernel"),
    ],
)
def test_shares_and_weight(milli: int, shares: int, weight: int) -> None:
    """Shares for cgroup v1, and the kubelet's conversion to weight for v2."""
    assert cpu_shares(milli) == shares
    assert cpu_weight(shares) == weight
    assert cpu_weight(0) == 0


STATIC = {"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}
MIRROR = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}


@pytest.mark.parametrize(
    ("pod", "capacity", "score"),
    [
        pytest.param(pod_of(want("", "10")), 4_000_000_000, 999, id="cpu-limit"),
        pytest.param(pod_of(want(",0", "12,10")), 8_000_000_000, 999, id="memory-limit-cpu-request"),
        pytest.param(pod_of(want("", ",0")), 7_230_457_451, 1000, id="zero-memory-limit"),
        pytest.param(pod_of(want()), 4_000_000_000, 1000, id="no-request-limit"),
        pytest.param(pod_of(want("5m,10G", "5m,10G")), 123_456_789, -997, id="equal-request-limit-cpu-memory"),
        pytest.param(pod_of(want("5m,4000000000", ",10G")), 8_000_000_000, 500, id="half-of-the-node's-memory"),
        pytest.param(pod_of(want(",7999999999")), 8_000_000_000, 3, id="request-no-limit"),
        pytest.param(pod_of(want(",900G")), 8_000_000_000, 3, id="more-than-the-node-has"),
        pytest.param(pod_of(want(",1000000000")), 8_000_000_000, 875, id="burstable-unique-container"),
        pytest.param(
            pod_of(want(), priorityClassName="system-cluster-critical", priority=2_000_000_000),
            4_000_000_000,
            1000,
            id="cluster-critical",
        ),
        pytest.param(
            pod_of(want(), priorityClassName="system-node-critical", priority=2_000_001_000),
            4_000_000_000,
            -997,
            id="node-critical",
        ),
        pytest.param(
            pod_of(want(), priorityClassName="system-node-critical"),
            4_000_000_000,
            1000,
            id="the-name-alone-is-not-enough",
        ),
        pytest.param(
            pod_of(want(), priorityClassName="system-node-critical") | STATIC,
            4_000_000_000,
            -997,
            id="static-is-critical",
        ),
        pytest.param(
            pod_of(want(), priorityClassName="system-node-critical") | MIRROR,
            4_000_000_000,
            -997,
            id="mirror-is-critical",
        ),
    ],
)
def test_oom_score(pod: dict[str, Any], capacity: int, score: int) -> None:
    """The rows of pkg/kubelet/qos/policy_test.go without sidecars and pod-level resources."""
    assert oom_score_adj(pod, pod["spec"]["containers"][0], capacity) == score


def test_the_sandbox_is_told_of_the_overhead_apart() -> None:
    """As requests and limits alike, and as none if there is none (kuberuntime_sandbox_linux_test.go)."""
    pod = pod_of(want("100m,100Mi", "200m,200Mi"), overhead=OVERHEAD)
    assert overhead_resources(pod, NODE) == ContainerResources(102, 10000, 100000, 10 * MI, 0)
    assert sandbox_resources(pod, NODE) == sandbox_resources(BURSTABLE, NODE)
    assert overhead_resources(BURSTABLE, NODE) is None
