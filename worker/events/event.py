"""An occurrence to report, and its Event object in the form of the kubelet's recorder.

client-go tools/record/event.go makeEvent; pkg/kubelet/container/ref.go GenerateContainerRef.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time

COMPONENT: Final = "kubelet"
"""The source that clients expect: `kubectl describe` shows it in the column From."""
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
LONGEST_MESSAGE: Final = 1024
"""The API's limit in bytes (pkg/apis/core/validation/events.go NoteLengthLimit); a longer message is truncated, or it would be
refused."""
DEFAULT_NAMESPACE: Final = "default"

Json = dict[str, Any]
TellOfNode = Callable[[str, str, str], None]
"""Records an event of the node: its type, reason and message."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """What an event is about: involvedObject."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    field_path: str = ""
    """For a container of a pod: `spec.containers{web}`."""

    def as_json(self) -> Json:
        """Return it in the API's form."""
        fields = {
            "apiVersion": "v1",
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "fieldPath": self.field_path,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened; the message must not contain a secret."""

    about: ObjectReference
    type: str
    reason: str
    message: str
    annotations: Mapping[str, str] = field(default_factory=dict)


def node_reference(node_name: str) -> ObjectReference:
    """Return a reference to a node; as in the kubelet, its name is used as UID."""
    return ObjectReference("Node", node_name, node_name)


def container_reference(pod: ObjectReference, spec: Mapping[str, Any], name: str) -> ObjectReference:
    """Return a reference to a container, or to the pod if the spec does not have it."""
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        if any(one["name"] == name for one in spec.get(kind) or ()):
            return ObjectReference(pod.kind, pod.name, pod.uid, pod.namespace, f"spec.{kind}{{{name}}}")
    return pod


def new_event(happened: Occurrence, node_name: str, at: datetime) -> Json:
    """Return the Event for a first occurrence."""
    metadata: Json = {
        "name": event_name(happened.about.name, at),
        "namespace": happened.about.namespace or DEFAULT_NAMESPACE,
    }
    if happened.annotations:
        metadata["annotations"] = dict(happened.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": happened.about.as_json(),
        "reason": happened.reason,
        "message": truncate(happened.message),
        "type": happened.type,
        "source": {"component": COMPONENT, "host": node_name},
        "reportingComponent": COMPONENT,
        "reportingInstance": node_name,
        "firstTimestamp": api_time(at),
        "lastTimestamp": api_time(at),
        "eventTime": None,
        "count": 1,
    }


def event_name(name: str, at: datetime) -> str:
    """Return an event's name: the object's name, and the time in nanoseconds as hexadecimal."""
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return f"{name}.{((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000:x}"


def truncate(message: str) -> str:
    """Truncate a message to the API's limit, between characters."""
    encoded = message.encode()
    return message if len(encoded) <= LONGEST_MESSAGE else encoded[:LONGEST_MESSAGE].decode(errors="ignore")
