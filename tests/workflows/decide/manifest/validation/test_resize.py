"""Are a resize and its policy refused exactly when the API refuses them, with the same message?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import Pod, container, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.pod import validate_pod
from workflows.decide.manifest.validation.resize import validate_resize
from workflows.decide.record.updates import changes

C0, I0 = "spec.containers[0]", "spec.initContainers[0]"
QOS = "Pod QOS Class may not change as a result of resizing"
ONLY = "Forbidden: only cpu and memory resources are mutable"
ONLY_INIT = "Forbidden: only cpu and memory resources for init or sidecar containers are mutable"
NO_REQUESTS = "resources.requests: Forbidden: resource requests cannot be removed"
NO_LIMITS = "resources.limits: Forbidden: resource limits cannot be removed"
RESTARTS = {"resourceName": "memory", "restartPolicy": "RestartContainer"}
KEEPS = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
Amounts = dict[str, str]


def of(requests: Amounts | None = None, limits: Amounts | None = None, **fields: Any) -> Pod:
    """Build a pod with one container with these resources."""
    return default_pod(container(resources=given(requests, limits), **fields))


def beside(requests: Amounts | None = None, limits: Amounts | None = None, restart: str = "Always") -> Pod:
    """Build a pod with an init container with these resources, by default a sidecar, and a burstable container."""
    init = {"name": "init", "image": "busybox", "resources": given(requests, limits)}
    containers = [{"name": "web", "image": "busybox", "resources": given({"cpu": "1m"}, None)}]
    return default_pod(
        pod(containers=containers, initContainers=[init | ({"restartPolicy": restart} if restart else {})])
    )


def given(requests: Amounts | None, limits: Amounts | None) -> Pod:
    """Build resources."""
    return {kind: amounts for kind, amounts in (("requests", requests), ("limits", limits)) if amounts is not None}


def cpu_memory(cpu: str, memory: str) -> Amounts:
    """Build cpu and memory."""
    return {"cpu": cpu, "memory": memory}


def changed_class(to: str) -> str:
    """Build the API's message."""
    return f'spec: Invalid value: "{to}": {QOS}'


def whole(requests: Amounts | None = None, limits: Amounts | None = None) -> Pod:
    """Build a pod with resources of its own."""
    return default_pod(pod(resources=given(requests, limits)))


A_LIMIT, A_REQUEST = cpu_memory("200m", "200Mi"), cpu_memory("100m", "100Mi")
STORED = A_REQUEST | {"ephemeral-storage": "1Gi"}
MORE_STORED = A_REQUEST | {"ephemeral-storage": "2Gi"}


@pytest.mark.parametrize(
    ("old", "new", "faults"),
    [
        pytest.param(of(None, {"cpu": "1"}), of({"cpu": "1"}, {"cpu": "2"}), [], id="cpu-limit-change"),
        pytest.param(
            of(A_REQUEST, A_LIMIT), of(A_REQUEST, cpu_memory("200m", "300Mi")), [], id="memory-limit-increase"
        ),
        pytest.param(
            of(A_REQUEST, A_LIMIT), of(A_REQUEST, cpu_memory("200m", "100Mi")), [], id="memory-limit-decrease"
        ),
        pytest.param(
            of(A_REQUEST, A_LIMIT, resizePolicy=[RESTARTS]),
            of(A_REQUEST, cpu_memory("200m", "100Mi"), resizePolicy=[RESTARTS]),
            [],
            id="restart-container-memory-limit-decrease",
        ),
        pytest.param(of({"cpu": "1"}), of({"cpu": "2"}), [], id="cpu-request-change"),
        pytest.param(whole({"cpu": "1"}), whole({"cpu": "2"}), [], id="pod-level-cpu-request-change"),
        pytest.param(
            whole({"cpu": "1", "memory": "1Mi"}),
            whole({"cpu": "1"}),
            ["spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"],
            id="pod-level-request-removed",
        ),
        pytest.param(
            whole({"cpu": "1"}, {"cpu": "2"}),
            whole({"cpu": "1"}),
            ["spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"],
            id="pod-level-limit-removed",
        ),
        pytest.param(
            whole({"cpu": "1", "hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}),
            whole({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),
            ["spec: Forbidden: only cpu and memory resources are mutable at pod-level"],
            id="pod-level-huge-pages-change",
        ),
        pytest.param(
            whole({"cpu": "1"}),
            default_pod(pod()),
            [changed_class("BestEffort"), "spec.resources: Forbidden: pod-level resources cannot be removed"],
            id="pod-level-resources-removed",
        ),
        pytest.param(of({"memory": "1Gi"}), of({"memory": "2Gi"}), [], id="memory-request-change"),
        pytest.param(of(STORED), of(MORE_STORED), [f"spec: {ONLY}"], id="storage-request-change"),
        pytest.param(of(A_REQUEST), of(STORED), [f"spec: {ONLY}"], id="adding-a-resource-that-is-not-resizable"),
        pytest.param(of(None, A_LIMIT), of(None, A_REQUEST), [], id="guaranteed-to-guaranteed"),
        pytest.param(of(A_REQUEST), of(A_REQUEST, A_LIMIT), [], id="burstable-add-limits"),
        pytest.param(of({"cpu": "1"}), of(cpu_memory("1", "1Gi")), [], id="burstable-add-requests"),
        pytest.param(
            of(None, A_LIMIT), of(A_REQUEST, A_LIMIT), [changed_class("Burstable")], id="guaranteed-to-burstable"
        ),
        pytest.param(
            of(A_REQUEST, A_LIMIT), of(None, A_LIMIT), [changed_class("Guaranteed")], id="burstable-to-guaranteed"
        ),
        pytest.param(of(), of(A_REQUEST), [changed_class("Burstable")], id="best-effort-to-burstable"),
        pytest.param(
            of(A_REQUEST), of(), [changed_class("BestEffort"), f"{C0}.{NO_REQUESTS}"], id="burstable-to-best-effort"
        ),
        pytest.param(
            of(A_REQUEST, A_LIMIT), of(A_REQUEST, {"memory": "200Mi"}), [f"{C0}.{NO_LIMITS}"], id="no-cpu-limit"
        ),
        pytest.param(
            of(A_REQUEST, A_LIMIT), of(A_REQUEST, {"cpu": "200m"}), [f"{C0}.{NO_LIMITS}"], id="no-memory-limit"
        ),
        pytest.param(of(A_REQUEST, A_LIMIT), of(A_REQUEST), [f"{C0}.{NO_LIMITS}"], id="no-limits"),
        pytest.param(of(A_REQUEST), of({"memory": "100Mi"}), [f"{C0}.{NO_REQUESTS}"], id="no-cpu-request"),
        pytest.param(of(A_REQUEST), of({"cpu": "100m"}), [f"{C0}.{NO_REQUESTS}"], id="no-memory-request"),
        pytest.param(beside(A_REQUEST, A_LIMIT), beside(A_REQUEST, A_REQUEST), [], id="sidecar-limits-decrease"),
        pytest.param(beside(A_REQUEST), beside(A_LIMIT), [], id="sidecar-requests-increase"),
        pytest.param(beside(STORED), beside(MORE_STORED), [f"{I0}: {ONLY_INIT}"], id="storage-of-a-sidecar"),
        pytest.param(beside(A_REQUEST, A_LIMIT), beside(A_REQUEST), [f"{I0}.{NO_LIMITS}"], id="sidecar-without-limits"),
        pytest.param(
            beside(A_REQUEST, restart=""), beside(A_LIMIT, restart=""), [], id="an-init-container-that-ends-by-itself"
        ),
        pytest.param(
            beside(A_REQUEST, restart=""),
            beside(restart=""),
            [f"{I0}.{NO_REQUESTS}"],
            id="an-init-container-without-requests",
        ),
    ],
)
def test_resizes(old: Pod, new: Pod, faults: list[str]) -> None:
    """The rows of TestValidatePodResize for the supported fields; a refused resize is not applied in place."""
    assert list(validate_resize(new, old)) == faults
    found = changes(old, new, pod_level=True)
    assert [one.in_place for one in found] == [not faults] * len(found)
    assert all(fault in found[0].words for fault in faults)


@pytest.mark.parametrize(
    ("names", "what"),
    [
        pytest.param(["a", "b", "c"], "addition", id="addition"),
        pytest.param(["a"], "removal", id="removal"),
        pytest.param(["b", "a"], "reorder", id="reorder"),
        pytest.param(["a", "d"], "rename", id="rename"),
    ],
)
def test_containers_stay_in_their_order(names: list[str], what: str) -> None:
    """Another order means another pod, whatever the resources."""
    old, new = (
        default_pod(
            pod(containers=[{"name": one, "image": "busybox", "resources": given(amounts, None)} for one in these])
        )
        for these, amounts in ((["a", "b"], A_REQUEST), (names, A_LIMIT))
    )
    assert [one.words for one in changes(old, new)] == ["the names or order of containers"], what


def test_another_policy_is_another_pod() -> None:
    """Only resources can be changed in place."""
    found = changes(of(A_REQUEST, resizePolicy=[KEEPS]), of(A_LIMIT, resizePolicy=[RESTARTS]))
    assert [(one.words.split()[0], one.in_place) for one in found] == [("resizePolicy", False), ("resources", True)]


POLICIES = 'supported values: "NotRequired", "RestartContainer"'
NEVER = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        pytest.param(container(resizePolicy=[KEEPS, RESTARTS]), [], id="both"),
        pytest.param(
            container(resizePolicy=[{"resourceName": "ephemeral-storage", "restartPolicy": "NotRequired"}]),
            [f'{C0}.resizePolicy: Unsupported value: "ephemeral-storage": supported values: "cpu", "memory"'],
            id="a-resource-that-is-not-resized",
        ),
        pytest.param(
            container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "Sometimes"}]),
            [f'{C0}.resizePolicy: Unsupported value: "Sometimes": {POLICIES}'],
            id="an-unknown-policy",
        ),
        pytest.param(container(resizePolicy=[{}]), [f"{C0}.resizePolicy: Required value"] * 2, id="nothing-said"),
        pytest.param(
            container(resizePolicy=[KEEPS, KEEPS]), [f'{C0}.resizePolicy[1]: Duplicate value: "cpu"'], id="said-twice"
        ),
        pytest.param(
            pod(containers=container(resizePolicy=[RESTARTS])["spec"]["containers"], restartPolicy="Never"),
            [f'{C0}.resizePolicy: Invalid value: "RestartContainer": {NEVER}'],
            id="no-restart-of-what-is-never-restarted",
        ),
        pytest.param(
            pod(initContainers=[{"name": "init", "image": "busybox", "resizePolicy": [KEEPS, RESTARTS]}]),
            [
                (
                    f'{I0}.resizePolicy[1].restartPolicy: Invalid value: "RestartContainer":'
                    " must not be set to 'RestartContainer' for non-sidecar initContainers"
                )
            ],
            id="no-restart-of-an-init-container",
        ),
        pytest.param(
            pod(
                initContainers=[
                    {"name": "init", "image": "busybox", "restartPolicy": "Always", "resizePolicy": [RESTARTS]}
                ]
            ),
            [],
            id="but-of-a-sidecar",
        ),
    ],
)
def test_policies(source: Pod, faults: list[str]) -> None:
    """The rows of TestValidateResizePolicy."""
    assert list(validate_pod(default_pod(source))) == faults
