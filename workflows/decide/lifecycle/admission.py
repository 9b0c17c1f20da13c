"""Whether this node admits a pod; a rejected pod has failed, and nothing of it is started.

The kubelet's admit handlers in its order: sysctls (pkg/kubelet/sysctl), the operating system and the policy for
supplemental groups (lifecycle/predicate.go), AppArmor (pkg/security/apparmor). The node's abilities come with the pod's
start, so a rejected pod stays rejected. An edit of its manifest makes another pod, which is judged again.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from proto.kubernetes.admission import GROUPS_POLICY_NOT_SUPPORTED, REJECTED_PREFIX
from proto.kubernetes.pod_containers import every_container
from proto.kubernetes.sysctls import safe_sysctls, why_forbidden
from proto.temporal.activities.requests import RunPodSandbox
from proto.temporal.pod import NodeSettings, Observed
from proto.temporal.pod_inputs import Eviction, Rejected
from workflows.decide.situation import Situation
from workflows.decide.steps.termination import prepare_termination

SYSCTL_FORBIDDEN: Final = "SysctlForbidden"
OTHER_OS_LABEL: Final = "PodOSSelectorNodeLabelDoesNotMatch"
OTHER_OS: Final = "PodOSNotSupported"
APPARMOR: Final = "AppArmor"
_OS: Final = "linux"
_OS_LABEL: Final = "kubernetes.io/os"
BY_RUNTIME: Final = frozenset({GROUPS_POLICY_NOT_SUPPORTED})
"""Reasons with which a pod's first sandbox may fail."""


def rejection(situation: Situation) -> Rejected | None:
    """Return why the pod is rejected; None if it is admitted or has begun already."""
    observed = situation.observed
    if observed.sandbox or observed.containers or observed.next_sandbox_attempt or situation.busy:
        return None
    return next(why_rejected(situation.source, situation.settings), None)


def why_rejected(pod: Mapping[str, Any], node: NodeSettings) -> Iterator[Rejected]:
    """List every reason against a pod, the kubelet's first one first."""
    spec, labels = pod.get("spec") or {}, (pod.get("metadata") or {}).get("labels") or {}
    context = spec.get("securityContext") or {}
    if sysctls := context.get("sysctls"):
        allowed = (*safe_sysctls(node.kernel), *node.allowed_unsafe_sysctls)
        network, ipc = bool(spec.get("hostNetwork")), bool(spec.get("hostIPC"))
        for one in sysctls:
            if why := why_forbidden(one["name"], allowed, host_network=network, host_ipc=ipc):
                yield Rejected(SYSCTL_FORBIDDEN, f"forbidden sysctl: {why}")
    if node.kernel:  # else the pod began before this was checked
        yield from _other_system(spec, labels)
    if not node.apparmor and needs_apparmor(spec):
        yield Rejected(APPARMOR, "Cannot enforce AppArmor: AppArmor is not enabled on the host")


def _other_system(spec: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Rejected]:
    if labels.get(_OS_LABEL, _OS) != _OS:
        yield Rejected(OTHER_OS_LABEL, f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label")
    if (spec.get("os") or {}).get("name", _OS) != _OS:
        yield Rejected(OTHER_OS, "Failed to admit pod as the OS field doesn't match node OS")


def needs_apparmor(spec: Mapping[str, Any]) -> bool:
    """Report whether the pod or one of its containers asks for a profile that confines."""
    for holder in (spec, *every_container(spec)):
        profile = (holder.get("securityContext") or {}).get("appArmorProfile") or {}
        if profile.get("type", "Unconfined") != "Unconfined":
            return True
    return False


def rejected_by_runtime(situation: Situation, action: RunPodSandbox, reason: str) -> bool:
    """Report whether a first sandbox failed because the node cannot run the pod."""
    return reason in BY_RUNTIME and action.attempt == 0 and situation.observed.eviction is None


def reject(observed: Observed, why: Rejected, now: datetime) -> None:
    """Record that the pod is rejected; what an earlier run may have left on the node is removed."""
    prepare_termination(observed)
    observed.eviction = Eviction(now, why.reason, f"{REJECTED_PREFIX}{why.message}")
