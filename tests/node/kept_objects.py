"""Objects for a node's tests: written into its objects folder as an operator does."""

import json
from typing import Any

from tests.node.tempolet_node import TempoletNode

_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}


def put_object(node: TempoletNode, plural: str, name: str, namespace: str = "default", **content: Any) -> None:
    """Write an object's file, or replace it at once."""
    folder = node.directory / "objects" / namespace / plural
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = folder / f".{name}.json"
    head = {"apiVersion": "v1", "kind": _KINDS[plural], "metadata": {"name": name, "namespace": namespace}}
    new.write_text(json.dumps(head | content))
    new.chmod(0o600)
    new.replace(folder / f"{name}.json")
