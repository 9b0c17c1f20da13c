"""Defaults of a pod.

Called by the poller once the structure is valid. The rules are pkg/apis/core/v1/defaults.go and
zz_generated.defaults.go, for the fields that `supported` has. An empty string counts as unset where Go's field is not a
pointer.
"""

import re
from typing import Any, Final

from proto.kubernetes.resources.quantity import canonical_quantity, parse_quantity
from proto.temporal.pod import PodJson
from workflows.decide.manifest.defaults.content_defaults import default_contents
from workflows.decide.manifest.defaults.pod_level_defaults import pod_level_resources

TERMINATION_MESSAGE_PATH: Final = "/dev/termination-log"
HOOKS: Final = ("postStart", "preStop")
_GRACE_SECONDS: Final = 30
_LONGEST_REFERENCE: Final = 1024  # a name has at most 255 characters, a tag 128
_AZURE_DISK: Final = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
_MILLI: Final = 10**6  # in nanos

# the grammar of image references, github.com/distribution/reference, with its familiar short forms
_ALPHANUMERIC: Final = r"[a-z0-9]+"
_PATH_PART: Final = rf"{_ALPHANUMERIC}(?:(?:[._]|__|-+){_ALPHANUMERIC})*"
_HOST_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PATH_PART}(?:/{_PATH_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_IMAGE_ID: Final = re.compile(r"[a-f0-9]{64}", re.ASCII)


def default_pod(pod: PodJson) -> PodJson:
    """Apply the defaults to a copy of the pod."""
    spec = dict(pod["spec"])
    host_network = bool(spec.get("hostNetwork"))
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [default_container(one, host_network=host_network) for one in spec[kind]]
    if "volumes" in spec:
        spec["volumes"] = [default_volume(one) for one in spec["volumes"]]
    if spec.get("resources"):
        spec["resources"] = pod_level_resources(spec)
    _where_unset(spec, "restartPolicy", "Always")
    _where_unset(spec, "dnsPolicy", "ClusterFirst")
    _where_unset(spec, "schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", _GRACE_SECONDS)
    spec["securityContext"] = _pod_security(spec.get("securityContext", {}))
    spec.setdefault("enableServiceLinks", True)
    return pod | {"spec": spec}


def default_volume(volume: dict[str, Any]) -> dict[str, Any]:
    """Apply a volume's defaults; one without a type is an emptyDir (SetDefaults_Volume)."""
    if not volume.keys() - {"name"}:
        return {**volume, "emptyDir": {}}
    if "image" in volume:
        image = dict(volume["image"])
        _where_unset(image, "pullPolicy", pull_policy_of(image.get("reference", "")))
        return {**volume, "image": image}
    if "azureDisk" in volume:
        return {**volume, "azureDisk": _AZURE_DISK | volume["azureDisk"]}
    return {kind: default_contents(kind, source) for kind, source in volume.items()}


def _pod_security(context: dict[str, Any]) -> dict[str, Any]:
    """Give a sysctl without a value the empty one, as Go reads it."""
    if "sysctls" not in context:
        return context
    return context | {"sysctls": [{"value": ""} | one for one in context["sysctls"]]}


def pull_policy_of(image: str) -> str:
    """Return an image's default pull policy: Always for the tag latest, written or implied."""
    match = _REFERENCE.fullmatch(image) if len(image) <= _LONGEST_REFERENCE else None
    if match is None or _IMAGE_ID.fullmatch(image):
        return "IfNotPresent"
    implied = match["tag"] is None and match["digest"] is None
    return "Always" if implied or match["tag"] == "latest" else "IfNotPresent"


def default_container(container: dict[str, Any], *, host_network: bool) -> dict[str, Any]:
    """Apply the defaults of a container of any kind."""
    filled = dict(container)
    _where_unset(filled, "imagePullPolicy", pull_policy_of(container.get("image", "")))
    _where_unset(filled, "terminationMessagePath", TERMINATION_MESSAGE_PATH)
    _where_unset(filled, "terminationMessagePolicy", "File")
    if "env" in filled:
        filled["env"] = [_variable(one) for one in filled["env"]]
    if "ports" in filled:
        filled["ports"] = [_port(one, host_network=host_network) for one in filled["ports"]]
    filled["resources"] = _resources(filled.get("resources", {}))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in filled:
            filled[probe] = _probe(filled[probe])
    if "lifecycle" in filled:
        hooks = filled["lifecycle"]
        filled["lifecycle"] = {
            field: default_handler(hooks[field]) if field in HOOKS else hooks[field] for field in hooks
        }
    return filled


def default_handler(handler: dict[str, Any]) -> dict[str, Any]:
    """Apply the defaults of an HTTP GET."""
    filled = dict(handler)
    if "httpGet" in filled:
        filled["httpGet"] = http_get = dict(filled["httpGet"])
        _where_unset(http_get, "path", "/")
        _where_unset(http_get, "scheme", "HTTP")
    return filled


def _probe(probe: dict[str, Any]) -> dict[str, Any]:
    filled = dict(probe)
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        _where_unset(filled, field, value)
    filled = default_handler(filled)
    if "grpc" in filled:
        filled["grpc"] = {"service": ""} | filled["grpc"]
    return filled


def _variable(variable: dict[str, Any]) -> dict[str, Any]:
    """Set the API version of a fieldRef, and that a file key is not optional."""
    source = variable.get("valueFrom") or {}
    if "fileKeyRef" in source:
        return variable | {"valueFrom": source | {"fileKeyRef": {"optional": False} | source["fileKeyRef"]}}
    if "fieldRef" not in source:
        return variable
    selector = dict(source["fieldRef"])
    _where_unset(selector, "apiVersion", "v1")
    return variable | {"valueFrom": source | {"fieldRef": selector}}


def _port(port: dict[str, Any], *, host_network: bool) -> dict[str, Any]:
    filled = dict(port)
    _where_unset(filled, "protocol", "TCP")
    if host_network and not filled.get("hostPort") and "containerPort" in filled:
        filled["hostPort"] = filled["containerPort"]
    return filled


def _resources(resources: dict[str, Any]) -> dict[str, Any]:
    """Default requests to limits, and round amounts up to thousandths."""
    filled = dict(resources)
    if "limits" in filled:
        filled["requests"] = filled["limits"] | filled.get("requests", {})
    for kind in ("limits", "requests"):
        if kind in filled:
            filled[kind] = {name: _rounded_up(amount) for name, amount in filled[kind].items()}
    return filled


def _rounded_up(amount: str) -> str:
    quantity = parse_quantity(amount)
    if quantity.nanos % _MILLI == 0:
        return amount
    return canonical_quantity(f"{quantity.milli}m")


def _where_unset(fields: dict[str, Any], name: str, value: Any) -> None:
    if not fields.get(name):
        fields[name] = value
