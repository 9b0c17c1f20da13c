"""Writes objects for a node's tests into its objects folder, as an operator does."""

import json
from pathlib import Path
from typing import Any

from tests.node.tempolet_node import TempoletNode

_KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "persistentvolumeclaims": ("v1", "PersistentVolumeClaim"),
    "persistentvolumes": ("v1", "PersistentVolume"),
    "csidrivers": ("storage.k8s.io/v1", "CSIDriver"),
    "runtimeclasses": ("node.k8s.io/v1", "RuntimeClass"),
}
_OF_THE_CLUSTER = {"persistentvolumes", "csidrivers", "runtimeclasses"}


def object_file(node: TempoletNode, plural: str, name: str, namespace: str = "default") -> Path:
    """Return the path of an object's file."""
    folder = "_cluster" if plural in _OF_THE_CLUSTER else namespace
    return node.objects / folder / plural / f"{name}.json"


def put_object(node: TempoletNode, plural: str, name: str, namespace: str = "default", **content: Any) -> None:
    """Write an object's file, or replace it atomically."""
    file = object_file(node, plural, name, namespace)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}")
    version, kind = _KINDS[plural]
    metadata = {"name": name} | ({} if plural in _OF_THE_CLUSTER else {"namespace": namespace})
    new.write_text(json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata} | content))
    new.chmod(0o600)
    new.replace(file)
