"""Does the kernel get the kubelet's values for swap, memory protection and OOM groups, on cgroup v1 and v2?"""

from dataclasses import replace
from typing import Any

import pytest

from proto.kubernetes.resources.memory import memory_protection
from proto.kubernetes.resources.node_resources import MemoryQos, NodeResources, NodeSwap
from proto.kubernetes.resources.resources import container_resources
from tests.proto.kubernetes.resources.test_resources import MI, STATIC, pod_of, want

GI = 1024 * MI
V1 = NodeResources(memory_capacity=16 * GI, swap=NodeSwap(accounted=True, capacity=8 * GI))
V2 = replace(V1, cgroup_v2=True)
GROUP = {"memory.oom.group": "1"}
NO_SWAP = {"memory.swap.max": "0"}


def limited(node: NodeResources) -> NodeResources:
    """Return a node with LimitedSwap."""
    return replace(node, swap=replace(node.swap, limited=True))


def told(node: NodeResources, own: dict[str, Any], more: dict[str, Any] | None = None) -> tuple[int, dict[str, str]]:
    """Compute a container's memory and swap limit of v1, and its files of v2."""
    pod = pod_of(own) | (more or {})
    found = container_resources(pod, pod["spec"]["containers"][0], node)
    return found.memory_swap_limit_in_bytes, dict(found.unified)


BURSTABLE = want(",4Gi", ",8Gi")


@pytest.mark.parametrize(
    ("node", "own", "expected"),
    [
        pytest.param(V1, BURSTABLE, (8 * GI, {}), id="v1-no-swap-is-memory-and-swap-together-no-more"),
        pytest.param(V1, want(), (0, {}), id="v1-without-a-limit-there-is-none-to-set"),
        pytest.param(limited(V1), BURSTABLE, (8 * GI, {}), id="v1-knows-no-limited-swap"),
        pytest.param(replace(V1, swap=NodeSwap()), BURSTABLE, (0, {}), id="v1-that-does-not-count-swap"),
        pytest.param(V2, BURSTABLE, (0, GROUP | NO_SWAP), id="v2-no-swap"),
        pytest.param(replace(V2, swap=NodeSwap()), BURSTABLE, (0, GROUP), id="v2-that-does-not-count-swap"),
        pytest.param(
            limited(V2), BURSTABLE, (0, GROUP | {"memory.swap.max": str(2 * GI)}), id="v2-a-share-by-the-request"
        ),
        pytest.param(limited(V2), want("1,4Gi", "1,4Gi"), (0, GROUP | NO_SWAP), id="v2-guaranteed-has-none"),
        pytest.param(limited(V2), want(), (0, GROUP | NO_SWAP), id="v2-best-effort-has-none"),
        pytest.param(limited(V2), want("1"), (0, GROUP | NO_SWAP), id="v2-no-memory-asked"),
        pytest.param(limited(V2), want("1,4Gi", ",4Gi"), (0, GROUP | NO_SWAP), id="v2-request-equals-limit"),
        pytest.param(limited(V2), want(",32Gi"), (0, GROUP | NO_SWAP), id="v2-more-than-the-node-has"),
        pytest.param(replace(V2, single_process_oom_kill=True), want(), (0, NO_SWAP), id="v2-one-process-at-a-time"),
    ],
)
def test_swap_and_shared_fate(node: NodeResources, own: dict[str, Any], expected: tuple[int, dict[str, str]]) -> None:
    """Rows of kuberuntime_container_linux_test.go TestGenerateLinuxContainerResourcesWithSwap."""
    assert told(node, own) == expected


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(STATIC, id="static"),
        pytest.param(
            {"spec": {"priority": 2_000_000_000, "containers": [{"name": "c0", "resources": BURSTABLE}]}},
            id="by-priority",
        ),
    ],
)
def test_critical_pods_have_no_swap(more: dict[str, Any]) -> None:
    """GetContainerSwapBehavior asks IsCriticalPod, for which every static pod is one."""
    assert told(limited(V2), BURSTABLE, more) == (0, GROUP | NO_SWAP)


def quality(**settings: Any) -> NodeResources:
    """Return a v2 node with MemoryQoS, without swap."""
    return replace(V2, swap=NodeSwap(), memory_qos=MemoryQos(**{"allocatable": 10 * GI} | settings))


UNKEPT = {"memory.min": "0", "memory.low": "0"}


@pytest.mark.parametrize(
    ("node", "own", "expected"),
    [
        pytest.param(quality(), want(",1Gi", ",1Gi"), UNKEPT, id="request-equals-limit"),
        pytest.param(
            quality(),
            want(",1Gi", ",2Gi"),
            UNKEPT | {"memory.high": str(int(1.9 * GI) // 4096 * 4096)},
            id="near-its-limit",
        ),
        pytest.param(
            quality(throttling_factor=0.5),
            want(",1Gi"),
            UNKEPT | {"memory.high": str(int(5.5 * GI))},
            id="the-node's-limit",
        ),
        pytest.param(quality(), want(), UNKEPT, id="nothing-asked-nothing-limited"),
        pytest.param(quality(), want("1"), UNKEPT, id="no-memory-asked-none-limited"),
        pytest.param(quality(page_size=GI), want(",1Gi", ",1500Mi"), UNKEPT, id="no-whole-page-above-the-request"),
        pytest.param(quality(tiered=True), want("1,1Gi", "1,1Gi"), {"memory.min": str(GI)}, id="guaranteed-is-kept"),
        pytest.param(
            quality(tiered=True),
            want(",1Gi", ",2Gi"),
            {"memory.low": str(GI), "memory.high": str(int(1.9 * GI) // 4096 * 4096)},
            id="burstable-is-kept-if-it-can-be",
        ),
        pytest.param(replace(quality(), cgroup_v2=False), want(",1Gi", ",2Gi"), {}, id="v1-knows-none-of-it"),
    ],
)
def test_memory_qos(node: NodeResources, own: dict[str, Any], expected: dict[str, str]) -> None:
    """Rows of TestGenerateContainerConfigWithMemoryQoSEnforced, by the formula of the 1.27 alpha."""
    assert told(node, own)[1] == ({} if not node.cgroup_v2 else GROUP | expected)


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        pytest.param(quality(tiered=True), pod_of(want("1,1Gi", "1,1Gi")), {"memory.min": str(GI)}, id="guaranteed"),
        pytest.param(
            quality(tiered=True), pod_of(want(",1Gi"), want(",1Gi")), {"memory.low": str(2 * GI)}, id="burstable"
        ),
        pytest.param(
            quality(tiered=True),
            pod_of(want(",1Gi"), overhead={"memory": "1Gi"}),
            {"memory.low": str(2 * GI)},
            id="overhead",
        ),
        pytest.param(quality(tiered=True), pod_of(want()), {}, id="best-effort"),
        pytest.param(quality(), pod_of(want(",1Gi")), {}, id="no-reservation"),
        pytest.param(V2, pod_of(want(",1Gi")), {}, id="the-gate-is-off"),
    ],
)
def test_what_a_pods_cgroup_keeps(node: NodeResources, pod: dict[str, Any], expected: dict[str, str]) -> None:
    """The rows of ResourceConfigForPod."""
    assert memory_protection(pod, node) == expected
