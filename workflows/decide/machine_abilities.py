"""What a pod asks for that the machine itself cannot do: the kubelet's admit handlers beside those for resources.

In its order: sysctls (pkg/kubelet/sysctl), the operating system (lifecycle/predicate.go), then resources and what else is beside other pods
(`node/node_admission.py`), then AppArmor (pkg/security/apparmor). The poller asks so, before a pod's workflow begins. The
workflow asks once more (`lifecycle/admission.py`), by the abilities that came with its start.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.pod_containers import every_container
from proto.kubernetes.sysctls import safe_sysctls, why_forbidden
from proto.temporal.pod import NodeSettings
from proto.temporal.pod_inputs import Rejected

SYSCTL_FORBIDDEN: Final = "SysctlForbidden"
OTHER_OS_LABEL: Final = "PodOSSelectorNodeLabelDoesNotMatch"
OTHER_OS: Final = "PodOSNotSupported"
APPARMOR: Final = "AppArmor"
_OS: Final = "linux"
_OS_LABEL: Final = "kubernetes.io/os"


def why_rejected(pod: Mapping[str, Any], node: NodeSettings) -> Iterator[Rejected]:
    """List every reason against a pod, the kubelet's first one first."""
    yield from before_resources(pod, node)
    yield from after_resources(pod, node)


def before_resources(pod: Mapping[str, Any], node: NodeSettings) -> Iterator[Rejected]:
    """List the reasons that go before a lack of resources."""
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


def after_resources(pod: Mapping[str, Any], node: NodeSettings) -> Iterator[Rejected]:
    """List the reasons that go after it."""
    if not node.apparmor and needs_apparmor(pod.get("spec") or {}):
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
