"""Rules about security contexts, host namespaces, sysctls and profiles.

Source: pkg/apis/core/validation/validation.go, validatePodSpecSecurityContext, ValidateSecurityContext,
validateHostUsers, validateWindows and what they call. Privileged containers are allowed, as by a kubelet.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.sysctls import LONGEST, NAME_PATTERN, Namespace, is_name, namespace_of
from workflows.decide.manifest.fields.descending_paths import descending
from workflows.decide.manifest.fields.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

_MAX_ID: Final = 2**31 - 1
_IDS: Final = ("fsGroup", "runAsUser", "runAsGroup")
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS: Final = ("Default", "Unmasked")
_GROUPS_POLICIES: Final = ("Merge", "Strict")
_CHANGE_POLICIES: Final = ("Always", "OnRootMismatch")
_LONGEST_APPARMOR: Final = 4095  # PATH_MAX without its NUL
_NOT_FOR_WINDOWS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_NOT_FOR_WINDOWS_CONTAINERS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_KINDS: Final = ("containers", "initContainers")


def validate_pod_security(spec: Mapping[str, Any]) -> Iterator[str]:
    """Validate the security contexts of the pod and its containers, and the host namespaces that it uses."""
    for path, container in _containers(spec):
        yield from validate_security(container, path, host_users=uses_nodes_users(spec))
    context, path = spec.get("securityContext") or {}, "spec.securityContext"
    for field in _IDS:
        yield from _id(context.get(field), f"{path}.{field}")
    for index, group in enumerate(context.get("supplementalGroups", ())):
        yield from _id(group, f"{path}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", value=True, detail=detail)
    yield from _sysctls(spec, context.get("sysctls", ()), f"{path}.sysctls")
    for field, known in (("fsGroupChangePolicy", _CHANGE_POLICIES), ("supplementalGroupsPolicy", _GROUPS_POLICIES)):
        if field in context and context[field] not in known:
            yield not_supported(f"{path}.{field}", context[field], known)
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    yield from _apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    yield from _host_users(spec)
    if (spec.get("os") or {}).get("name") == "windows":
        yield from _windows(spec)


def uses_nodes_users(spec: Mapping[str, Any]) -> bool:
    """Report whether the pod has no user namespace of its own."""
    return spec.get("hostUsers") is not False


def validate_security(container: Mapping[str, Any], path: str, *, host_users: bool) -> Iterator[str]:
    """Validate a container's security context; `host_users`: the pod has no user namespace of its own."""
    context = container.get("securityContext")
    if not context:
        return
    path = f"{path}.securityContext"
    for field in ("runAsUser", "runAsGroup"):
        yield from _id(context.get(field), f"{path}.{field}")
    if "procMount" in context:
        mount = context["procMount"]
        if mount not in _PROC_MOUNTS:
            yield not_supported(f"{path}.procMount", mount, _PROC_MOUNTS)
        if host_users and mount == "Unmasked":
            yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        detail = "cannot set `allowPrivilegeEscalation` to false and "
        if context.get("privileged"):
            yield invalid(path, context, f"{detail}`privileged` to true")
        if "CAP_SYS_ADMIN" in (context.get("capabilities") or {}).get("add", ()):
            yield invalid(path, context, f"{detail}`capabilities.Add` CAP_SYS_ADMIN")
    yield from _apparmor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in _KINDS:
        for index, container in enumerate(spec.get(kind, ())):
            yield f"spec.{kind}[{index}]", container


def _id(number: int | None, path: str) -> Iterator[str]:
    if number is not None and not 0 <= number <= _MAX_ID:
        yield invalid(path, number, f"must be between 0 and {_MAX_ID}, inclusive")


def _sysctls(spec: Mapping[str, Any], sysctls: Any, path: str) -> Iterator[str]:
    taken: set[str] = set()
    for index, one in enumerate(sysctls):
        name, here = one.get("name", ""), f"{path}[{index}].name"
        if not name:
            yield required(here)
        elif not is_name(name):
            yield invalid(here, name, f"must have at most {LONGEST} characters and match regex {NAME_PATTERN}")
        elif name in taken:
            yield duplicate(here, name)
        taken.add(name)
        for field, namespace in (("hostNetwork", Namespace.NET), ("hostIPC", Namespace.IPC)):
            if spec.get(field) and namespace_of(name) is namespace:
                yield invalid(here, name, f"may not be specified when '{field}' is true")


def _seccomp(profile: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    if profile is None:
        return
    yield from _profile_type(profile, path, "type is required when seccompProfile is set")
    local = profile.get("localhostProfile")
    if profile.get("type") != "Localhost":
        if local is not None:
            yield invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")
    elif local is None:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from descending(local, f"{path}.localhostProfile")


def _apparmor(profile: Mapping[str, Any] | None, path: str) -> Iterator[str]:
    if profile is None:
        return
    yield from _profile_type(profile, path, "type is required when appArmorProfile is set")
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    here = f"{path}.localhostProfile"
    if kind in ("RuntimeDefault", "Unconfined") and local is not None:
        yield invalid(here, local, "can only be set when AppArmor type is Localhost")
    if kind != "Localhost":
        return
    if local is None:
        yield required(here, "must be set when AppArmor type is Localhost")
        return
    if local.strip() != local:
        yield invalid(here, local, "must not be padded with whitespace")
    elif not local:
        yield required(here, "must be set when AppArmor type is Localhost")
    if len(local.encode()) > _LONGEST_APPARMOR:
        yield too_long(here, _LONGEST_APPARMOR)


def _profile_type(profile: Mapping[str, Any], path: str, detail: str) -> Iterator[str]:
    kind = profile.get("type", "")
    if not kind:
        yield required(f"{path}.type", detail)
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", kind, _PROFILE_TYPES)


def _host_users(spec: Mapping[str, Any]) -> Iterator[str]:
    """Reject what a user namespace excludes; paths and capitals are the API's."""
    if uses_nodes_users(spec):
        return
    for field, name in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden(f"spec.{name}", "when `hostUsers` is false")
    for path, container in _containers(spec):
        if container.get("volumeDevices"):
            yield forbidden(f"{path}.volumeDevices", "when `hostUsers` is false")


def _windows(spec: Mapping[str, Any]) -> Iterator[str]:
    """Reject what exists only on Linux in a pod for Windows."""
    detail = "cannot be set for a windows pod"
    context = spec.get("securityContext") or {}
    for field in ("hostUsers", "shareProcessNamespace"):
        if field in spec:
            yield forbidden(f"spec.{field}", detail)
    for field in ("hostPID", "hostIPC"):
        if spec.get(field):
            yield forbidden(f"spec.{field}", detail)
    for field in _NOT_FOR_WINDOWS:
        if field in context and context[field] != []:
            yield forbidden(f"spec.securityContext.{field}", detail)
    for path, container in _containers(spec):
        own = container.get("securityContext") or {}
        yield from (
            forbidden(f"{path}.securityContext.{field}", detail)
            for field in _NOT_FOR_WINDOWS_CONTAINERS
            if field in own
        )
