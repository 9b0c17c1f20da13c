"""Does a pod with pod-level resources get the kubelet's QoS class, cgroup values, oom_score_adj and defaults?"""

from typing import Any

import pytest

from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.oom_score import oom_score_adj
from proto.kubernetes.resources.qos import QosClass, qos_class
from proto.kubernetes.resources.resources import PodResources, container_resources, pod_resources
from tests.proto.kubernetes.resources.test_resources import MI, NODE, pod_of, want
from tests.workflows.decide.pods import pod as minimal
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.pod import validate_pod
from workflows.decide.slices import sandbox_slice
from workflows.decide.status.pod_level_status import allocated_resources, pod_resources_shown

PAGES = NodeResources(memory_capacity=8_000_000_000, huge_page_sizes=(2 * MI, 1024 * MI))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod_of(want("1,1Gi", "1,1Gi"), resources={}), QosClass.BEST_EFFORT, id="empty-ones-stand-alone"),
        pytest.param(pod_of(want(), resources=want("1,1Gi", "1,1Gi")), QosClass.GUARANTEED, id="the-pod's-are-enough"),
        pytest.param(
            pod_of(want("1,1Gi", "1,1Gi"), resources=want("1,1Gi", "2,2Gi")),
            QosClass.BURSTABLE,
            id="and-they-alone-count",
        ),
        pytest.param(pod_of(want(), resources=want("1", "1")), QosClass.BURSTABLE, id="cpu-alone"),
        pytest.param(
            pod_of(want(), resources={"requests": {"hugepages-2Mi": "2Mi"}}),
            QosClass.BEST_EFFORT,
            id="pages-do-not-count",
        ),
    ],
)
def test_class(pod: dict[str, Any], expected: QosClass) -> None:
    """ComputePodQOS with pod-level resources."""
    assert qos_class(pod) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod_of(want(), resources={"requests": {}}), PodResources(2), id="besteffort"),
        pytest.param(pod_of(want(), resources=want("100m,100Mi")), PodResources(102), id="requests"),
        pytest.param(
            pod_of(want("100m,100Mi", "200m,200Mi"), resources=want("150m,150Mi")),
            PodResources(153, 20000, 100000, 200 * MI),
            id="requests-beside-limits-of-every-container",
        ),
        pytest.param(
            pod_of(want(), want("100m"), resources=want("200m,200Mi", "300m,300Mi")),
            PodResources(204, 30000, 100000, 300 * MI),
            id="limits-though-no-container-has-one",
        ),
        pytest.param(
            pod_of(want("100m", "150m"), want(), resources=want("200m", ",300Mi")),
            PodResources(204, None, None, 300 * MI),
            id="a-memory-limit-leaves-cpu-open",
        ),
        pytest.param(
            pod_of(want(), resources=want("100m,100Mi", "100m,100Mi")),
            PodResources(102, 10000, 100000, 100 * MI),
            id="guaranteed",
        ),
        pytest.param(
            pod_of(want("100m,100Mi", "100m,100Mi"), resources=want("", "200m,200Mi")),
            PodResources(102, 20000, 100000, 200 * MI),
            id="limits-alone-before-defaulting",
        ),
    ],
)
def test_pod_cgroup(pod: dict[str, Any], expected: PodResources) -> None:
    """The rows of pkg/kubelet/cm/helpers_linux_test.go TestResourceConfigForPod with pod-level resources."""
    assert pod_resources(pod, NODE) == expected


@pytest.mark.parametrize(
    ("own", "of_pod", "expected"),
    [
        pytest.param(want(), want("", "2,1Gi"), (2048, 200000, 1024 * MI), id="the-pod's-limits-stand-in"),
        pytest.param(want("1"), want("", "2,1Gi"), (1024, 200000, 1024 * MI), id="not-for-a-request"),
        pytest.param(want("", "1,1Mi"), want("", "2,1Gi"), (1024, 100000, MI), id="its-own-come-first"),
        pytest.param(want(), want("2,1Gi"), (2, 0, 0), id="the-pod's-requests-are-no-container's"),
    ],
)
def test_container(own: dict[str, Any], of_pod: dict[str, Any], expected: tuple[int, int, int]) -> None:
    """Rows of kuberuntime_container_linux_test.go: shares, quota, memory limit."""
    pod = pod_of(own, resources=of_pod)
    found = container_resources(pod, pod["spec"]["containers"][0], NODE)
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == expected


CAPACITY = 4_000_000_000
HALF = want("5m,1000000000", "5m,1000001000")
"""A quarter of the node's memory, burstable."""


@pytest.mark.parametrize(
    ("pod", "scores"),
    [
        pytest.param(pod_of(want(), want(), resources=want("5m,1G", "5m,1G")), (-997, -997), id="guaranteed"),
        pytest.param(pod_of(want(), want(), resources=HALF), (875, 875), id="shared-out-evenly"),
        pytest.param(
            pod_of(want("3m,500000000", "5m,500001000"), want(), resources=HALF),
            (813, 938),
            id="what-is-left-is-shared-out",
        ),
        pytest.param(
            pod_of(want("5m,500000000"), want("5m,500000000"), resources=HALF), (875, 875), id="nothing-is-left"
        ),
        pytest.param(pod_of(want(), want(), resources=want("5m", "10m")), (999, 999), id="no-memory-asked"),
    ],
)
def test_oom_score(pod: dict[str, Any], scores: tuple[int, ...]) -> None:
    """By the formula of pkg/kubelet/qos/policy.go: its own request, and its share of the pod's request beyond the containers'."""
    assert tuple(oom_score_adj(pod, one, CAPACITY) for one in pod["spec"]["containers"]) == scores


def test_huge_pages_of_each_size() -> None:
    """An absent size is zero; a container without its own has the pod's; a burstable pod's cgroup has the sum."""
    pages = {"cpu": "1", "hugepages-2Mi": "4Mi"}
    pod = pod_of({"requests": pages, "limits": pages}, want("1"))
    first, second = (container_resources(pod, one, PAGES) for one in pod["spec"]["containers"])
    assert first.hugepage_limits == (("2MB", 4 * MI), ("1GB", 0))
    assert second.hugepage_limits == (("2MB", 0), ("1GB", 0))
    assert pod_resources(pod, PAGES).huge_pages == (("2MB", 4 * MI), ("1GB", 0))
    assert pod_resources(pod_of(want()), PAGES).huge_pages == (("2MB", 0), ("1GB", 0))
    shared = pod_of(want("1"), resources={"requests": pages, "limits": pages})
    assert container_resources(shared, shared["spec"]["containers"][0], PAGES).hugepage_limits[0] == ("2MB", 4 * MI)


def defaulted(of_pod: dict[str, Any], **own: dict[str, str]) -> dict[str, Any]:
    """Default a pod with one container."""
    pod = minimal(resources=of_pod)
    pod["spec"]["containers"][0]["resources"] = own
    resources: dict[str, Any] = default_pod(pod)["spec"]["resources"]
    return resources


@pytest.mark.parametrize(
    ("of_pod", "own", "expected"),
    [
        pytest.param({}, {"requests": {"cpu": "1"}}, {}, id="nothing-is-made-up"),
        pytest.param({"requests": {"cpu": "1"}}, {}, {"requests": {"cpu": "1"}}, id="requests-make-no-limits"),
        pytest.param(
            {"limits": {"cpu": "2", "memory": "1Gi"}},
            {"requests": {"cpu": "500m"}},
            {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            id="requests-by-the-containers-then-by-the-limits",
        ),
        pytest.param(
            {"limits": {"cpu": "2"}},
            {"requests": {"memory": "64Mi", "ephemeral-storage": "1Gi"}},
            {"limits": {"cpu": "2"}, "requests": {"cpu": "2", "memory": "64Mi"}},
            id="of-what-a-pod-can-ask-for",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}},
            {
                "limits": {"hugepages-2Mi": "4Mi"},
                "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"},
            },
            id="huge-pages-by-the-containers",
        ),
    ],
)
def test_defaults(of_pod: dict[str, Any], own: dict[str, Any], expected: dict[str, Any]) -> None:
    """Rows of defaults_test.go for defaultHugePagePodLimits and defaultPodRequests."""
    assert defaulted(of_pod, **own) == expected


def faults(of_pod: dict[str, Any] | None, *own: dict[str, Any], **spec: Any) -> list[str]:
    """Validate a pod with these resources."""
    pod = minimal(**({} if of_pod is None else {"resources": of_pod}), **spec)
    pod["spec"]["containers"] = [
        {"name": f"c{i}", "image": "a", "resources": one} for i, one in enumerate(own or ({},))
    ]
    return [one.removeprefix("spec.") for one in validate_pod(default_pod(pod))]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(faults(want("1,1Gi", "2,1Gi"), want("1,512Mi", "2,1Gi")), [], id="all-is-well"),
        pytest.param(
            faults({"requests": {"ephemeral-storage": "1Gi"}}),
            [
                (
                    'resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": '
                    'supported values: "cpu", "hugepages-", "memory"'
                )
            ],
            id="of-storage-only-containers-ask",
        ),
        pytest.param(
            faults(want("1"), want("600m"), want("600m")),
            [
                (
                    'resources.requests[cpu]: Invalid value: "1": '
                    "must be greater than or equal to aggregate container requests of 1200m"
                )
            ],
            id="less-than-its-containers",
        ),
        pytest.param(
            faults(want("", "1"), want("100m", "2")),
            ['resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1'],
            id="a-container-that-may-use-more",
        ),
        pytest.param(
            faults(want("2", "1")),
            ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
            id="a-request-above-the-limit",
        ),
        pytest.param(
            faults({"limits": {"hugepages-2Mi": "2Mi"}}),
            ["resources: Forbidden: HugePages require cpu or memory"],
            id="huge-pages-alone",
        ),
        pytest.param(
            faults(want("1"), os={"name": "windows"}),
            ["resources: Forbidden: may not be set for a windows pod"],
            id="windows",
        ),
    ],
)
def test_rules(found: list[str], expected: list[str]) -> None:
    """The rules of validatePodResources."""
    assert found == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}, [], id="whole-pages"),
        pytest.param(
            {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}},
            [
                f'{kind}[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi'
                for kind in ("limits", "requests")
            ],
            id="half-a-page",
        ),
        pytest.param(
            {"limits": {"cpu": "1", "hugepages-big": "4Mi"}},
            [
                f'{kind}[hugepages-big]: Invalid value: "4Mi": 4Mi is not positive integer multiple of hugepages-big'
                for kind in ("limits", "requests")
            ],
            id="no-size",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}},
            ["limits: Required value: Limit must be set for non overcommitable resources"],
            id="a-request-alone",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "4Mi"}},
            ['requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi'],
            id="a-smaller-request",
        ),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}},
            ["limits: Required value: Limit must be set for non overcommitable resources"],
            id="a-request-of-devices-alone",
        ),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}},
            ['requests: Invalid value: "1": must be equal to example.com/gpu limit of 2'],
            id="a-request-of-fewer-devices",
        ),
        pytest.param(
            {"limits": {"example.com/gpu": "1500m"}},
            [
                'limits[example.com/gpu]: Invalid value: "1500m": must be an integer',
                'requests[example.com/gpu]: Invalid value: "1500m": must be an integer',
            ],
            id="a-part-of-a-device",
        ),
        pytest.param({"limits": {"example.com/gpu": "1"}}, [], id="a-device"),
        pytest.param(
            {"limits": {"requests.example.com/gpu": "1"}},
            [
                f'{kind}[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": '
                "doesn't follow extended resource name standard"
                for kind in ("limits", "requests")
            ],
            id="a-quota",
        ),
    ],
)
def test_rules_of_containers(resources: dict[str, Any], expected: list[str]) -> None:
    """The rules of validateResourceRequirements about resources that can't be overcommitted."""
    assert [one.removeprefix("containers[0].resources.") for one in faults(None, resources)] == expected


def test_what_the_status_says() -> None:
    """Only for a pod with pod-level resources."""
    pod = default_pod(minimal(resources=want("", "1500m,1Gi")))
    shown = pod_resources_shown(pod)
    assert shown is not None
    assert (shown.requests, shown.limits) == ({"cpu": "1500m", "memory": "1Gi"},) * 2
    assert allocated_resources(pod) == {"cpu": "1500m", "memory": "1Gi"}
    pod["spec"]["overhead"] = {"cpu": "500m"}
    assert allocated_resources(pod) == {"cpu": "2", "memory": "1Gi"}
    assert (allocated_resources(minimal()), pod_resources_shown(minimal())) == (None, None)


def test_the_sandbox_is_told() -> None:
    """Also of empty ones, which make the pod best effort."""
    assert sandbox_slice(minimal(resources=want("1")))["spec"]["resources"] == want("1")
    assert sandbox_slice(minimal(resources={}))["spec"]["resources"] == {}
    assert "resources" not in sandbox_slice(minimal())["spec"]
