"""Parses a manifest's bytes into one valid, defaulted pod of this node, or lists everything that is wrong with it.

Called by `manifest_folder` in a thread for each file that changed. Pure: it reads neither files nor the clock, and
never raises, whatever the bytes are. The order is the kubelet's (pkg/kubelet/config/common.go): read, default, place on
the node, validate. Before that, fields that this version does not support are refused, so that no pod runs without part
of its spec.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from proto.temporal.pod import PodJson
from worker.documents.manifest_document import read_document
from worker.documents.manifest_refusal import LARGEST_POD, ManifestUnreadable
from worker.poller.manifests.api_references import api_references
from worker.poller.manifests.gated_fields import fields_of_gates_off
from worker.poller.manifests.static_pod import (
    DEFAULT_NAMESPACE,
    Place,
    Placing,
    Refused,
    StaticPod,
    place_static_pod,
    static_pod_name,
)
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.field_errors import invalid, required
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

DEFAULT_GATES: Final = FeatureGates()
_MOST_MESSAGES: Final = 20
_LONGEST_NAME: Final = 253  # characters; a longer name is not valid


@dataclass(frozen=True, slots=True)
class NodeOfManifests:
    """What a manifest's pod takes from its node."""

    name: str
    gates: FeatureGates = DEFAULT_GATES
    cluster: bool = False
    """Whether the node has a kubeconfig; then a static pod may refer to no object of the API."""


def read_manifest(path: Path, data: bytes, node: NodeOfManifests, now: datetime) -> StaticPod | Refused:
    """Read one manifest; `now` becomes the annotation of when it was seen."""
    try:
        document = read_document(data)
    except ManifestUnreadable as error:
        return Refused(path, error.reason, (str(error),))
    return read_pod(path, document, node, now)


def read_pod(path: Place, document: Any, node: NodeOfManifests, now: datetime, *, url: str = "") -> StaticPod | Refused:
    """Read one pod out of a document; `url` is its origin if it did not come from a file."""
    if wrong := _not_a_pod(document):
        return Refused(path, "NotAPod", wrong)
    found = _handle(path, document, Placing(node.name, now, url), cluster=node.cluster)
    found = _admit(found, node.gates) if isinstance(found, StaticPod) else found
    return replace(found, pod=_pod_named(document, node.name)) if isinstance(found, Refused) else found


def _handle(path: Place, document: dict[str, Any], placing: Placing, *, cluster: bool) -> StaticPod | Refused:
    structure = read_structure(document, POD)
    if structure.faults:
        return _refused(path, "InvalidPod", (*structure.faults, *structure.not_yet))
    pod = default_pod({name: value for name, value in structure.content.items() if name != "status"})
    if (size := _size(pod)) > LARGEST_POD:
        return Refused(path, "TooLarge", (f"the pod has {size} bytes as JSON; the maximum is {LARGEST_POD}",))
    if not pod["metadata"].get("name"):
        return _refused(path, "InvalidPod", (required("metadata.name"), *structure.not_yet))
    placed = place_static_pod(path, pod, placing)
    faults = (*api_references(placed.pod["spec"], cluster=cluster), *validate_pod(placed.pod))
    if faults:
        return _refused(path, "InvalidPod", (*faults, *structure.not_yet))
    if structure.not_yet:
        return _refused(path, "NotSupportedYet", structure.not_yet)
    return placed


def _admit(placed: StaticPod, gates: FeatureGates) -> StaticPod | Refused:
    """Refuse a valid pod that this node cannot run: of another operating system, or with a disabled feature gate."""
    spec = placed.pod["spec"]
    if "os" in spec and (name := spec["os"]["name"]) != "linux":
        message = f'spec.os.name: this node runs Linux, but the pod needs "{name}"'
        return _refused(placed.path, "PodOSNotSupported", (message,))  # pkg/kubelet/lifecycle/predicate.go
    if found := tuple(fields_of_gates_off(spec, gates)):
        return _refused(placed.path, "FeatureGateOff", found)
    return placed


def _not_a_pod(document: Any) -> tuple[str, ...]:
    """Return why the document is not a v1 Pod; empty if it is."""
    if not isinstance(document, dict):
        return ("a Pod of apiVersion v1 is expected, not a list or a single value",)
    expected = {"apiVersion": "v1", "kind": "Pod"}
    return tuple(
        invalid(field, document[field], f"must be {value}; a manifest here is one Pod of apiVersion v1")
        if document.get(field)
        else required(field, f"must be {value}")
        for field, value in expected.items()
        if document.get(field) != value
    )


def _pod_named(document: dict[str, Any], node_name: str) -> str:
    """Return namespace/name of a refused manifest's pod, by which its refusal is found; empty without a name."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    match metadata.get("name"):
        case str(name) if isinstance(namespace, str) and 0 < len(name) <= _LONGEST_NAME >= len(namespace):
            return f"{namespace}/{static_pod_name(name, node_name)}"
        case _:
            return ""


def _refused(path: Place, reason: str, messages: tuple[str, ...]) -> Refused:
    if len(messages) > _MOST_MESSAGES:
        messages = (*messages[:_MOST_MESSAGES], f"and {len(messages) - _MOST_MESSAGES} more")
    return Refused(path, reason, messages)


def _size(pod: PodJson) -> int:
    return len(json.dumps(pod, separators=(",", ":"), ensure_ascii=False).encode())
