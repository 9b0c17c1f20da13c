"""Which pods does a node reject, what is reported, and is nothing of them ever started?

The rows are the kubelet's (pkg/kubelet/sysctl allowlist_test.go, lifecycle predicate_test.go, pkg/security/apparmor
validate_test.go).
"""

from typing import Any

import pytest

from proto.kubernetes.admission import GROUPS_POLICY_NOT_SUPPORTED
from proto.temporal.activities.requests import RunPodSandbox
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.pod import Lifecycle, NodeSettings
from tests.workflows.decide.situations import KEY, NOW, Context, pod, situation, up
from workflows.decide.lifecycle import admission, lifecycle
from workflows.decide.machine_abilities import APPARMOR, OTHER_OS, OTHER_OS_LABEL, SYSCTL_FORBIDDEN, why_rejected
from workflows.decide.record.fold import fold_failure
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.steps.pod_actions import pod_actions

NODE = NodeSettings(kernel="6.1.0", allowed_unsafe_sysctls=("kernel.msg*",))
NO_APPARMOR = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
PROFILE = {"appArmorProfile": {"type": "RuntimeDefault"}}
UNCONFINED = {"appArmorProfile": {"type": "Unconfined"}}


def sets(*names: str, **spec: Any) -> dict[str, Any]:
    """Build a pod that sets these sysctls."""
    return {"securityContext": {"sysctls": [{"name": one, "value": "1"} for one in names]}, **spec}


@pytest.mark.parametrize(
    ("spec", "node", "rejected"),
    [
        pytest.param({}, NODE, None, id="asks-for-nothing"),
        pytest.param(sets("net.ipv4.tcp_syncookies", "kernel/msgmax"), NODE, None, id="safe-and-allowed"),
        pytest.param(
            sets("net.ipv4.tcp_syncookies", "kernel.sem"),
            NODE,
            (SYSCTL_FORBIDDEN, 'forbidden sysctl: "kernel.sem" not allowlisted'),
            id="neither-safe-nor-allowed",
        ),
        pytest.param(
            sets("net.ipv4.tcp_rmem"),
            NodeSettings(kernel="4.14.1"),
            (SYSCTL_FORBIDDEN, 'forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted'),
            id="not-safe-under-this-kernel",
        ),
        pytest.param(
            sets("kernel.msgmax", hostIPC=True),
            NODE,
            (SYSCTL_FORBIDDEN, 'forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled'),
            id="of-the-node's-shared-memory",
        ),
        pytest.param(
            {"os": {"name": "windows"}},
            NODE,
            (OTHER_OS, "Failed to admit pod as the OS field doesn't match node OS"),
            id="for-another-system",
        ),
        pytest.param({"os": {"name": "linux"}}, NODE, None, id="for-this-system"),
        pytest.param({"securityContext": PROFILE}, NODE, (APPARMOR, NO_APPARMOR), id="apparmor-that-is-not-there"),
        pytest.param({"securityContext": PROFILE}, NodeSettings(apparmor=True), None, id="apparmor-that-is-there"),
        pytest.param({"securityContext": UNCONFINED}, NODE, None, id="unconfined-needs-none"),
        pytest.param(
            {"initContainers": [{"name": "i", "securityContext": PROFILE}], "securityContext": UNCONFINED},
            NODE,
            (APPARMOR, NO_APPARMOR),
            id="apparmor-of-one-container",
        ),
    ],
)
def test_who_is_not_taken(spec: dict[str, Any], node: NodeSettings, rejected: tuple[str, str] | None) -> None:
    """The first reason counts."""
    found = next(why_rejected(pod(**spec), node), None)
    assert (found and (found.reason, found.message)) == rejected


@pytest.mark.parametrize(
    ("labels", "taken"),
    [
        pytest.param({}, True, id="no-label"),
        pytest.param({"kubernetes.io/os": "linux"}, True, id="of-this-system"),
        pytest.param({"kubernetes.io/os": "windows"}, False, id="of-another-system"),
    ],
)
def test_the_label_of_a_system(labels: dict[str, str], taken: bool) -> None:
    """As if it were a nodeSelector (rejectPodAdmissionBasedOnOSSelector)."""
    asked = pod()
    asked["metadata"]["labels"] = labels
    assert [one.reason for one in why_rejected(asked, NODE)] == ([] if taken else [OTHER_OS_LABEL])


def rejected_pod() -> Situation:
    """Return the situation of a rejected pod with no facts yet."""
    return situation(pod(**sets("kernel.sem")), Context(settings=NODE), sandbox=None)


def moved(asked: Situation) -> Lifecycle:
    """Advance the pod's lifecycle as far as the facts allow."""
    while event := lifecycle.next_event(asked):
        lifecycle.happened(asked, event)
    return asked.observed.lifecycle


def test_a_pod_that_is_not_taken_has_failed() -> None:
    """With the kubelet's reason, once nothing of an earlier life is left; nothing is ever started."""
    asked = rejected_pod()
    assert moved(asked) is Lifecycle.TERMINATING, "the runtime is asked first"
    asked.observed.runtime_stale = asked.observed.starts_in_doubt = False
    assert moved(asked) is Lifecycle.TERMINATED
    assert not pod_actions(asked).begin
    status = pod_status(asked)
    said = 'Pod was rejected: forbidden sysctl: "kernel.sem" not allowlisted'
    assert (status.phase, status.reason, status.message) == ("Failed", SYSCTL_FORBIDDEN, said)
    assert (status.container_statuses, status.init_container_statuses) == ([], None), "of what was never begun"
    assert pod_summary(asked, status).reason == SYSCTL_FORBIDDEN


def test_a_pod_that_has_begun_is_not_asked_again() -> None:
    """A node that allows less now leaves it running."""
    running = situation(pod(**sets("kernel.sem")), Context(settings=NODE), containers={"web": up()})
    assert admission.rejection(running) is None
    assert lifecycle.next_event(running) is None


@pytest.mark.parametrize(
    ("attempt", "reason", "rejected"),
    [
        pytest.param(0, GROUPS_POLICY_NOT_SUPPORTED, True, id="the-runtime-can't"),
        pytest.param(1, GROUPS_POLICY_NOT_SUPPORTED, False, id="a-pod-that-ran-waits-for-one-that-can"),
        pytest.param(0, "FailedCreatePodSandBox", False, id="what-happened-is-tried-again"),
    ],
)
def test_only_the_runtime_may_know(attempt: int, reason: str, rejected: bool) -> None:
    """It is asked with the first sandbox."""
    asked = situation(pod(), sandbox=None)
    fold_failure(asked, RunPodSandbox(KEY, attempt, {}), reason, "no")
    assert bool(asked.observed.eviction) is rejected
    assert bool(asked.observed.failures) is not rejected
    if rejected:
        assert asked.observed.eviction
        assert (asked.observed.eviction.message, asked.observed.eviction.at) == ("Pod was rejected: no", NOW)


@pytest.mark.parametrize(
    ("refresh", "reason", "rejected"),
    [
        pytest.param(None, "VolumeAttachmentLimitExceeded", True, id="the-node-has-no-place"),
        pytest.param({}, "VolumeAttachmentLimitExceeded", False, id="what-is-mounted-stays"),
        pytest.param(None, "FailedMount", False, id="another-failure-is-tried-again"),
    ],
)
def test_a_volume_without_a_place_rejects_its_pod(refresh: dict[str, str] | None, reason: str, rejected: bool) -> None:
    """Its sandbox goes again (pkg/kubelet/kubelet.go SyncPod); an end that has begun already stays."""
    asked = situation(pod())
    fold_failure(asked, MountVolumes(KEY, (), {}, refresh=refresh), reason, "no place")
    assert bool(asked.observed.eviction) is rejected
    if rejected:
        fold_failure(asked, MountVolumes(KEY, (), {}), reason, "no place, again")
        assert asked.observed.eviction
        assert (asked.observed.eviction.reason, asked.observed.eviction.message) == (
            reason,
            "Pod was rejected: no place",
        )
        assert moved(asked) is Lifecycle.TERMINATING
