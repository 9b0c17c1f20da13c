"""The security context of pods and containers for the runtime: users, groups, privileges, profiles, namespaces; pure.

Used by `sandbox` and `container_preparation`. A container's settings override its pod's, field by field
(pkg/securitycontext/util.go, pkg/kubelet/kuberuntime security_context.go, security_context_others.go, helpers.go,
util/util.go, kuberuntime_sandbox.go). The manifest was validated before.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.pod_containers import every_container
from proto.kubernetes.sysctls import normalized
from proto.temporal.pod import PodKey

_FROM_POD: Final = ("runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions")
"""Fields that a pod sets for all its containers; profiles have their own order, groups are the pod's alone."""
_MAX_ID: Final = 2**31 - 1
_MASKED_PATHS: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READONLY_PATHS: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
NODES_USERS: Final = cri.UserNamespace(mode=cri.NamespaceMode.NODE)
"""The user namespace of a pod without one of its own."""


class BreaksNonRootError(ValueError):
    """A container that must not run as root would run as root, or it cannot be verified."""


@dataclass(frozen=True, slots=True)
class ImageUser:
    """The user that an image runs as: a number, or a name that only the image's files can resolve."""

    uid: int | None = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class NodeSecurity:
    """Settings of the node that security contexts depend on."""

    seccomp_default: bool = False
    """KubeletConfiguration seccompDefault."""
    seccomp_root: str = "/var/lib/kubelet/seccomp"
    """The folder of localhost profiles."""
    throttle_paths: tuple[str, ...] = ()
    """Files of this machine about its temperature, masked like the standard ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityInputs:
    """The inputs of a container's security context."""

    key: PodKey
    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    image_user: ImageUser = ImageUser()
    node: NodeSecurity = NodeSecurity()
    user_namespace: cri.UserNamespace = field(default_factory=lambda: NODES_USERS)
    target_id: str = ""
    """The container whose processes it sees; empty: its own, or all of its pod."""
    volume_groups: tuple[int, ...] = ()
    """The groups of the pod's volumes."""


def sandbox_security(pod: Mapping[str, Any], user_namespace: cri.UserNamespace) -> cri.LinuxSandboxSecurityContext:
    """Build a sandbox's security context.

    Its own seccomp profile is always RuntimeDefault, so that the pod's may be stricter.
    """
    own_context = _pod_context(pod)
    return cri.LinuxSandboxSecurityContext(
        namespace_options=namespaces(pod, user_namespace),
        privileged=any(
            (one.get("securityContext") or {}).get("privileged") for one in every_container(pod.get("spec") or {})
        ),
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
        run_as_user=_number(own_context.get("runAsUser")),
        run_as_group=_number(own_context.get("runAsGroup")),
        supplemental_groups=_groups(own_context),
        supplemental_groups_policy=_groups_policy(own_context),
        selinux_options=_selinux(own_context.get("seLinuxOptions")),
    )


def sandbox_sysctls(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's sysctls, named with dots: runc knows no other form."""
    return {normalized(one["name"]): one.get("value") or "" for one in _pod_context(pod).get("sysctls") or ()}


def container_security(inputs: SecurityInputs) -> cri.LinuxContainerSecurityContext:
    """Build a container's security context; raises BreaksNonRootError."""
    verify_non_root(inputs)
    own_context, pod_context = effective(inputs.pod, inputs.container), _pod_context(inputs.pod)
    user, asked = inputs.image_user, own_context.get("runAsUser")
    unmasked = own_context.get("procMount") == "Unmasked"
    apparmor = _apparmor(inputs.pod, inputs.container)
    return cri.LinuxContainerSecurityContext(
        capabilities=_capabilities(own_context.get("capabilities")),
        privileged=bool(own_context.get("privileged")),
        namespace_options=namespaces(inputs.pod, inputs.user_namespace, inputs.target_id),
        selinux_options=_selinux(own_context.get("seLinuxOptions")),
        run_as_user=_number(user.uid if asked is None else asked),
        run_as_group=_number(own_context.get("runAsGroup")),
        run_as_username=user.name if asked is None else "",
        readonly_rootfs=bool(own_context.get("readOnlyRootFilesystem")),
        supplemental_groups=[*_groups(pod_context), *_groups_of_volumes(pod_context, inputs.volume_groups)],
        supplemental_groups_policy=_groups_policy(pod_context),
        no_new_privs=own_context.get("allowPrivilegeEscalation") is False,
        masked_paths=() if unmasked else (*_MASKED_PATHS, *inputs.node.throttle_paths),
        readonly_paths=() if unmasked else _READONLY_PATHS,
        seccomp=_seccomp(inputs),
        apparmor=apparmor,
        apparmor_profile=_old_apparmor(apparmor),
    )


def verify_non_root(inputs: SecurityInputs) -> None:
    """Refuse a container that must not run as root but might; raises BreaksNonRootError (verifyRunAsNonRoot)."""
    own_context, user = effective(inputs.pod, inputs.container), inputs.image_user
    if not own_context.get("runAsNonRoot"):
        return
    asked = own_context.get("runAsUser")
    if asked is not None:
        why = "container's runAsUser breaks non-root policy" if asked == 0 else ""
    elif user.uid is None:
        why = (
            f"container has runAsNonRoot and image has non-numeric user ({user.name}), cannot verify user is non-root"
            if user.name
            else ""
        )
    elif user.uid == 0:
        why = "container has runAsNonRoot and image will run as root"
    elif not 0 <= user.uid <= _MAX_ID:
        why = (
            f"container has runAsNonRoot and image has an invalid user id ({user.uid}). (Must be 1-({_MAX_ID})):"
            f" must be between 0 and {_MAX_ID}, inclusive"
        )
    else:
        why = ""
    if why:
        key = inputs.key
        full_name = f'"{key.name}_{key.namespace}({key.uid})"'
        raise BreaksNonRootError(f"{why} (pod: {full_name}, container: {inputs.container['name']})")


def effective(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a container's security context over its pod's (DetermineEffectiveSecurityContext)."""
    pod_context, own_context = _pod_context(pod), container.get("securityContext") or {}
    return {name: pod_context[name] for name in _FROM_POD if pod_context.get(name) is not None} | {
        name: value for name, value in own_context.items() if value is not None
    }


def namespaces(pod: Mapping[str, Any], user_namespace: cri.UserNamespace, target_id: str = "") -> cri.NamespaceOption:
    """Choose between the namespaces of the node, the pod, the container and another container.

    A target counts only if each container has its own process namespace; in a shared one all processes are visible
    anyway.
    """
    spec = pod.get("spec") or {}
    pid = cri.NamespaceMode.POD if spec.get("shareProcessNamespace") else cri.NamespaceMode.CONTAINER
    if spec.get("hostPID"):
        pid = cri.NamespaceMode.NODE
    targeted = bool(target_id) and pid == cri.NamespaceMode.CONTAINER
    return cri.NamespaceOption(
        network=cri.NamespaceMode.NODE if spec.get("hostNetwork") else cri.NamespaceMode.POD,
        ipc=cri.NamespaceMode.NODE if spec.get("hostIPC") else cri.NamespaceMode.POD,
        pid=cri.NamespaceMode.TARGET if targeted else pid,
        target_id=target_id if targeted else "",
        userns_options=user_namespace,
    )


def _pod_context(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    return (pod.get("spec") or {}).get("securityContext") or {}


def _number(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value=value)


def _groups(pod_context: Mapping[str, Any]) -> list[int]:
    own = pod_context.get("fsGroup")
    return [*(() if own is None else (own,)), *(pod_context.get("supplementalGroups") or ())]


def _groups_of_volumes(pod_context: Mapping[str, Any], groups: tuple[int, ...]) -> list[int]:
    """List the groups of volumes that the pod does not set itself (volume_manager.go GetExtraSupplementalGroupsForPod)."""
    return sorted(set(groups) - set(pod_context.get("supplementalGroups") or ()))


def _groups_policy(pod_context: Mapping[str, Any]) -> cri.SupplementalGroupsPolicy:
    strict = pod_context.get("supplementalGroupsPolicy") == "Strict"
    return cri.SupplementalGroupsPolicy.Strict if strict else cri.SupplementalGroupsPolicy.Merge


def _capabilities(own_context: Mapping[str, Any] | None) -> cri.Capability | None:
    if own_context is None:
        return None
    return cri.Capability(
        add_capabilities=own_context.get("add") or (), drop_capabilities=own_context.get("drop") or ()
    )


def _selinux(own_context: Mapping[str, Any] | None) -> cri.SELinuxOption | None:
    if own_context is None:
        return None
    return cri.SELinuxOption(**{name: own_context.get(name) or "" for name in ("user", "role", "type", "level")})


def _seccomp(inputs: SecurityInputs) -> cri.SecurityProfile:
    """Return the container's profile, else the pod's, else the node's default; a localhost one with its full path."""
    own = (inputs.container.get("securityContext") or {}).get("seccompProfile")
    own_context = own or _pod_context(inputs.pod).get("seccompProfile")
    if not own_context:
        default = inputs.node.seccomp_default
        kind = cri.SecurityProfile.RuntimeDefault if default else cri.SecurityProfile.Unconfined
        return cri.SecurityProfile(profile_type=kind)
    path = ""
    if own_context["type"] == "Localhost":
        if not own_context.get("localhostProfile"):
            raise ValueError("localhostProfile must be set if seccompProfile type is Localhost.")
        path = posixpath.normpath(posixpath.join(inputs.node.seccomp_root, own_context["localhostProfile"]))
    return cri.SecurityProfile(profile_type=own_context["type"], localhost_ref=path)


def _apparmor(pod: Mapping[str, Any], container: Mapping[str, Any]) -> cri.SecurityProfile | None:
    own = (container.get("securityContext") or {}).get("appArmorProfile")
    own_context = own or _pod_context(pod).get("appArmorProfile")
    if not own_context:
        return None
    return cri.SecurityProfile(
        profile_type=own_context["type"], localhost_ref=own_context.get("localhostProfile") or ""
    )


def _old_apparmor(profile: cri.SecurityProfile | None) -> str:
    """Return the profile in the field that old runtimes read."""
    if profile is None:
        return ""
    match profile.profile_type:
        case cri.SecurityProfile.RuntimeDefault:
            return "runtime/default"
        case cri.SecurityProfile.Unconfined:
            return "unconfined"
        case _:
            return f"localhost/{profile.localhost_ref}"
