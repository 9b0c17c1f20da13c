"""One thing that happened, and the Event of the API that tells of it, written as the kubelet's recorder does.

(client-go tools/record/event.go makeEvent; pkg/kubelet/container/ref.go GenerateContainerRef.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from proto.kubernetes.api_time import api_time

COMPONENT: Final = "kubelet"
"""The source that clients know: `kubectl describe` shows it in its column From."""
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
LONGEST_MESSAGE: Final = 1024
"""Bytes that the API takes (pkg/apis/core/validation/events.go NoteLengthLimit); what is longer is cut, or it would be refused."""
DEFAULT_NAMESPACE: Final = "default"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """What an event is about: involvedObject."""

    kind: str
    name: str
    uid: str
    namespace: str = ""
    field_path: str = ""
    """`spec.containers{web}`: of a pod, one of its containers."""

    def as_json(self) -> Json:
        """Write it as the API does."""
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
    """Something happened: why in one word, and in a sentence that holds no secret."""

    about: ObjectReference
    type: str
    reason: str
    message: str


def node_reference(node_name: str) -> ObjectReference:
    """Refer to a node as the kubelet does: its name stands for its UID."""
    return ObjectReference("Node", node_name, node_name)


def container_reference(pod: ObjectReference, spec: Mapping[str, Any], name: str) -> ObjectReference:
    """Refer to a container of a pod; one that the spec does not have is told of the pod itself."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        if any(one["name"] == name for one in spec.get(field) or ()):
            return ObjectReference(pod.kind, pod.name, pod.uid, pod.namespace, f"spec.{field}{{{name}}}")
    return pod


def event_of(happened: Occurrence, node_name: str, at: datetime) -> Json:
    """Write the Event that tells of it for the first time."""
    namespace = happened.about.namespace or DEFAULT_NAMESPACE
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(happened.about.name, at), "namespace": namespace},
        "involvedObject": happened.about.as_json(),
        "reason": happened.reason,
        "message": cut(happened.message),
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
    """Name an event: what it is about, and the nanoseconds when it was first seen, in hexadecimal."""
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return f"{name}.{((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000:x}"


def cut(message: str) -> str:
    """Cut a message to what the API takes, between characters."""
    said = message.encode()
    return message if len(said) <= LONGEST_MESSAGE else said[:LONGEST_MESSAGE].decode(errors="ignore")
