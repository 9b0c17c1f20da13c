"""What does a node know of itself without a Node object?"""

from pathlib import Path

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from worker.daemon.config import NodeConfig
from worker.poller.admission import own_node
from worker.poller.admission.own_node import OwnNode

LEFT = {"cpu": "1900m", "memory": "1Gi", "ephemeral-storage": "10Gi"}


def test_what_it_has_for_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Huge pages are beside the memory, and labels are those that every kubelet sets."""
    monkeypatch.setattr(
        own_node, "allocatable_resources", lambda *_: {name: parse_quantity(text) for name, text in LEFT.items()}
    )
    monkeypatch.setattr(own_node, "huge_pages", lambda: {2 << 20: 64 << 20, 1 << 30: 0})
    found = OwnNode(NodeConfig("n1", tmp_path, max_pods=7)).facts()
    expected = {**LEFT, "memory": "960Mi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0", "pods": "7"}
    assert found.allocatable == {name: parse_quantity(text) for name, text in expected.items()}
    assert (found.name, found.labels["kubernetes.io/hostname"], found.labels["kubernetes.io/os"]) == (
        *("n1", "n1"),
        "linux",
    )
    assert found.taints == ()


def test_a_machine_that_cannot_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then only the number of pods counts."""

    def fails(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(own_node, "allocatable_resources", fails)
    assert OwnNode(NodeConfig("n1", tmp_path)).facts().allocatable == {"pods": parse_quantity("110")}
