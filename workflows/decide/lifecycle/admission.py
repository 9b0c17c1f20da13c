"""Whether this node takes a pod at all; one that is rejected has Failed, and nothing of it is ever begun.

Asked by `lifecycle` before anything is known of a pod, and by `fold` where only the runtime can say it. The kubelet's admit
handlers in its order: sysctls (pkg/kubelet/sysctl), the operating system and the policy for supplemental groups
(lifecycle/predicate.go), AppArmor (pkg/security/apparmor). What the node is able to do comes with the pod's start, so a node that learns more later has no say in
a pod that it has rejected: an edit of its manifest, which makes another pod, asks again.
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
"""Reasons that the first sandbox of a pod may come back with."""


def rejection(situation: Situation) -> Rejected | None:
    """Say why the pod is not taken; None when it is, or has begun already."""
    observed = situation.observed
    if observed.sandbox or observed.containers or observed.next_sandbox_attempt or situation.busy:
        return None
    return next(why_rejected(situation.source, situation.settings), None)


def why_rejected(pod: Mapping[str, Any], node: NodeSettings) -> Iterator[Rejected]:
    """Name every reason against a pod, the kubelet's first one first."""
    spec, labels = pod.get("spec") or {}, (pod.get("metadata") or {}).get("labels") or {}
    context = spec.get("securityContext") or {}
    if sysctls := context.get("sysctls"):
        allowed = (*safe_sysctls(node.kernel), *node.allowed_unsafe_sysctls)
        network, ipc = bool(spec.get("hostNetwork")), bool(spec.get("hostIPC"))
        for one in sysctls:
            if why := why_forbidden(one["name"], allowed, host_network=network, host_ipc=ipc):
                yield Rejected(SYSCTL_FORBIDDEN, f"forbidden sysctl: {why}")
    if node.kernel:  # else the pod began before anybody asked for its system
        yield from _other_system(spec, labels)
    if not node.apparmor and needs_apparmor(spec):
        yield Rejected(APPARMOR, "Cannot enforce AppArmor: AppArmor is not enabled on the host")


def _other_system(spec: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Rejected]:
    if labels.get(_OS_LABEL, _OS) != _OS:
        yield Rejected(OTHER_OS_LABEL, f"Failed to admit pod as the `{_OS_LABEL}` label doesn't match node label")
    if (spec.get("os") or {}).get("name", _OS) != _OS:
        yield Rejected(OTHER_OS, "Failed to admit pod as the OS field doesn't match node OS")


def needs_apparmor(spec: Mapping[str, Any]) -> bool:
    """Say whether the pod or one of its containers asks for a profile that confines."""
    for holder in (spec, *every_container(spec)):
        profile = (holder.get("securityContext") or {}).get("appArmorProfile") or {}
        if profile.get("type", "Unconfined") != "Unconfined":
            return True
    return False


def rejected_by_runtime(situation: Situation, action: RunPodSandbox, reason: str) -> bool:
    """Say whether a first sandbox was refused for what the node is, and not for what happened."""
    return reason in BY_RUNTIME and action.attempt == 0 and situation.observed.eviction is None


def reject(observed: Observed, why: Rejected, now: datetime) -> None:
    """Write down that the pod is not taken: what another life of it may have left on the node goes, and nothing begins."""
    prepare_termination(observed)
    observed.eviction = Eviction(now, why.reason, f"{REJECTED_PREFIX}{why.message}")
