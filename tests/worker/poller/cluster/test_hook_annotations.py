"""Which hook annotations of a pod of the API does the node obey? Whoever may patch a pod can write them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from proto.temporal.signals import PodListed
from tests.worker.poller.cluster.test_api_pods import Node, document
from worker.poller.cluster.api_pod import read_api_pod

NOW = datetime(2026, 1, 2, tzinfo=UTC)
EXEC = {"exec": {"command": ["true"]}}
HOOK, OTHER = "postStop.tempolet.dev/c", "example.com/a"


def kept(pod: dict[str, Any]) -> list[str]:
    """Name the annotations that are left, without the kubelet's own."""
    return sorted(name for name in pod["metadata"]["annotations"] if "kubernetes.io" not in name)


@pytest.mark.parametrize(
    ("hooks", "said", "names"),
    [
        pytest.param(False, EXEC, [OTHER], id="none-unless-the-node-allows-them"),
        pytest.param(True, EXEC, [OTHER, HOOK], id="those-that-a-manifest-may-have-where-it-does"),
        pytest.param(
            True, EXEC | {"image": "evil.example/x:1"}, [OTHER], id="none-with-an-image-that-no-admission-saw"
        ),
    ],
)
def test_hooks_that_are_obeyed(hooks: bool, said: dict[str, Any], names: list[str]) -> None:
    """All other annotations are kept."""
    raw = document(annotations={HOOK: json.dumps(said), OTHER: "b"})
    assert kept(read_api_pod(raw, NOW, hooks=hooks).pod) == names


def test_a_pod_is_told_of_once() -> None:
    """It is read again with each change of its status, which its containers cause."""
    raw = document(annotations={HOOK: json.dumps(EXEC)}, uid="told-once")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            read_api_pod(raw, NOW)
    assert [line["podUID"] for line in lines] == ["told-once"]


def test_a_mirror_pod_is_not_judged() -> None:
    """It shows a static pod, whose manifest may have hooks."""
    raw = document(annotations={HOOK: json.dumps(EXEC), "kubernetes.io/config.mirror": "h"})
    assert kept(read_api_pod(raw, NOW).pod) == [HOOK]


async def test_a_pod_whose_history_is_lost_has_no_hooks(tmp_path: Path) -> None:
    """Nobody knows any more with which ones this node took it. An open workflow is told all, and judges by itself."""
    node = Node(tmp_path)
    raw = document(annotations={HOOK: json.dumps(EXEC)}, status={"startTime": "2026-01-01T00:00:00Z"})
    try:
        node.pods.set_listed([read_api_pod(raw, NOW, hooks=True)])
        await node.until_called("start with its content")
    finally:
        await node.pods.close()
    ((start, said),) = node.starts
    assert isinstance(said, PodListed)
    assert said.pod
    assert HOOK in said.pod["metadata"]["annotations"]
    assert HOOK not in start.pod["metadata"]["annotations"]
