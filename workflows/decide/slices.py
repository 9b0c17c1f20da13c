"""Slices of a pod: an activity's request carries the smallest part of the pod that the activity needs.

A pod may have a megabyte; a sandbox needs a page of it, a container its own part. Nothing is renamed.
"""

from typing import Any, Final

from proto.kubernetes.pod_containers import KINDS, every_container
from proto.temporal.hooks import Hook
from proto.temporal.pod import PodJson
from workflows.decide.contents import lies_in_memory, needs_pod_credentials, shown_container_fields, shown_metadata

METADATA: Final = ("name", "namespace", "uid", "labels", "annotations")
SPEC: Final = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostUsers",
    "shareProcessNamespace",
    "runtimeClassName",
    "overhead",
    *("hostname", "subdomain", "setHostnameAsFQDN", "hostnameOverride", "hostAliases"),
    *("dnsPolicy", "dnsConfig"),
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "securityContext",
    "priority",
    "priorityClassName",
)
CONTAINER: Final = ("name", "ports", "resources", "restartPolicy")
"""What a sandbox needs of every container: host ports, and the resources that the pod's cgroup sums up."""


SIZED: Final = ("name", "resources", "restartPolicy")


VOLUME_SECURITY: Final = ("fsGroup", "fsGroupChangePolicy")
_LABELS: Final = ("seLinuxOptions", "seLinuxChangePolicy")
_USER: Final = "runAsUser"
"""If every container has the same one, a token's files belong to it (`activities.volumes.plugin.ownership.fs_user_of`)."""
_BY_DRIVER: Final = frozenset(
    {
        *("persistentVolumeClaim", "ephemeral", "csi", "awsElasticBlockStore", "azureDisk", "azureFile", "cinder"),
        *("gcePersistentDisk", "portworxVolume", "vsphereVolume"),
    }
)
"""Volumes whose driver may need the pod's name, and which may be block devices."""
_USES: Final = ("volumeMounts", "volumeDevices")


PROBED: Final = ("name", "ports", "livenessProbe", "readinessProbe", "startupProbe")
"""What probing needs of a container; a command that refers to variables also needs env."""


PROGRAM: Final = frozenset(
    {
        *("image", "imagePullPolicy", "command", "args", "ports", "stdin", "stdinOnce", "tty"),
        *("lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "restartPolicy", "restartPolicyRules"),
        *("terminationMessagePath", "terminationMessagePolicy"),
    }
)
"""Fields of a container about its own program, which a hook's container does not take over."""


def _cut(source: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: source[name] for name in fields if source.get(name) not in (None, {}, [])}


def _privilege(container: dict[str, Any]) -> dict[str, Any]:
    """Cut what a sandbox needs of a security context: whether the container is privileged."""
    privileged = (container.get("securityContext") or {}).get("privileged")
    return {"securityContext": {"privileged": True}} if privileged else {}


def sandbox_slice(pod: PodJson) -> PodJson:
    """Cut what a sandbox, the pod's cgroup and its network need."""
    spec = pod["spec"]
    cut = _cut(spec, SPEC)
    if "resources" in spec:  # empty ones count, too: an empty resources is still the pod's own
        cut["resources"] = spec["resources"]
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            cut[kind] = [_cut(one, CONTAINER) | _privilege(one) for one in spec[kind]]
    if looking_in := [
        {"name": one["name"]} | _privilege(one) for one in spec.get("ephemeralContainers", ()) if _privilege(one)
    ]:
        cut["ephemeralContainers"] = looking_in
    return {"metadata": _cut(pod["metadata"], METADATA), "spec": cut}


def volumes_slice(pod: PodJson, *, labels: bool = False) -> PodJson:
    """Cut what mounting a pod's volumes needs besides them: their files' owner, and how much they may use.

    With `labels`, also the SELinux labels that containers ask for, of which a driver's volume may have one.
    """
    spec = pod["spec"]
    volumes = spec.get("volumes", ())
    cut: PodJson = _cut(spec, ("runtimeClassName",))
    fields = shown_container_fields(spec)
    credentials = any(map(needs_pod_credentials, volumes))
    if credentials:
        cut |= _cut(spec, ("serviceAccountName",))
        fields |= {"securityContext"}
    by_driver = any(_BY_DRIVER & one.keys() for one in volumes)
    shown = (_LABELS if labels and by_driver else ()) + ((_USER,) if credentials else ())
    if security := _cut(spec.get("securityContext") or {}, (*VOLUME_SECURITY, *shown)):
        cut["securityContext"] = security
    if by_driver:
        cut |= _cut(spec, ("serviceAccountName",))
        fields |= {*_USES, *(("securityContext",) if labels else ())}
    if any((one.get("emptyDir") or {}).get("medium") or lies_in_memory(one) for one in volumes):
        fields |= {*SIZED}
    if spec.get("hostUsers") is False and any("emptyDir" in one for one in volumes):
        cut["hostUsers"] = False  # and with it the limits, for a project quota
        fields |= {*SIZED}
    cut |= _cut(spec, ("resources",) if "resources" in fields else ())
    for kind in KINDS if fields else ():
        if spec.get(kind):
            cut[kind] = [_user(one, fields, shown) for one in spec[kind]]
    metadata = ("name", "namespace", "uid", *shown_metadata(volumes))
    return {"metadata": _cut(pod["metadata"], metadata), "spec": cut}


def _user(container: dict[str, Any], fields: set[str], shown: tuple[str, ...]) -> dict[str, Any]:
    """Cut what mounting the pod's volumes needs of a container; mounts keep only names and paths."""
    cut = _cut(container, ("name", *sorted(fields)))
    if user := _cut(cut.pop("securityContext", {}), shown):
        cut["securityContext"] = user
    return cut | {field: [_cut(use, ("name", "mountPath")) for use in cut[field]] for field in _USES if field in cut}


def container_slice(pod: PodJson, name: str) -> PodJson:
    """Cut one container's part, of its hooks only what its annotations record; raises KeyError for an unknown name."""
    cut = dict(own_part(pod, name))
    if lifecycle := cut.pop("lifecycle", None):
        kept = _cut(lifecycle, (Hook.PRE_STOP, "stopSignal"))
        cut |= {"lifecycle": kept} if kept else {}
    return cut


def hook_slice(
    pod: PodJson, name: str, hook: Hook, handler: PodJson | None = None
) -> tuple[PodJson, tuple[PodJson, ...]]:
    """Cut a hook's handler, unless it is given, and the ports that it may name; raises KeyError if there is none."""
    part = own_part(pod, name)
    return handler or part["lifecycle"][hook], tuple(part.get("ports", ()))


def hook_container_slice(pod: PodJson, name: str) -> PodJson:
    """Cut what a container that runs a hook's command takes over: everything but the program.

    New fields are included, so that whatever restricts the container also restricts its hooks.
    """
    part = own_part(pod, name)
    return {field: part[field] for field in part if field not in PROGRAM}


def own_part(pod: PodJson, name: str) -> PodJson:
    """Find one container's part; raises KeyError for an unknown name."""
    for one in every_container(pod["spec"]):
        if one["name"] == name:
            return dict(one)
    raise KeyError(f"the pod has no container {name!r}")


def resources_slice(pod: PodJson, name: str) -> PodJson:
    """Cut what giving a container its resources needs; raises KeyError for an unknown name."""
    return {"name": name, "resources": own_part(pod, name).get("resources") or {}}


def probe_slice(pod: PodJson, name: str) -> PodJson:
    """Cut what probing a container needs; raises KeyError for an unknown name."""
    container = container_slice(pod, name)
    commands = [((container.get(field) or {}).get("exec") or {}).get("command") or () for field in PROBED[2:]]
    refers = any("$(" in word for command in commands for word in command)
    return _cut(container, (*PROBED, "env") if refers else PROBED)
