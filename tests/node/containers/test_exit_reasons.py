"""Does a pod say how its container ended in the kubelet's words, on real containerd?

That of a signal (128 and its number) is in test_pod_lives: the first process of a container hears only those from outside.
"""

from typing import Any

import pytest

from tests.node.tempolet_node import TempoletNode, pod_manifest

EAT = "dd if=/dev/zero of=/dev/null bs=200M count=1000"
"""Needs more memory than the limit; dd's buffer is touched."""
NODE_KEYS: dict[str, object] = {}
"""None: its back-offs are the kubelet's."""


@pytest.mark.parametrize(
    ("command", "limit", "code", "reason"),
    [
        pytest.param(["true"], "", 0, "Completed", id="success"),
        pytest.param(["sh", "-c", "exit 3"], "", 3, "Error", id="failure"),
        # the shell outlives what is killed: containerd hears of both in any order, and says Error when it hears of the end first
        pytest.param(
            ["sh", "-c", f"{EAT}; code=$?; sleep 1; exit $code"], "32Mi", 137, "OOMKilled", id="out-of-memory"
        ),
        pytest.param(["/no/such/program"], "", 128, "StartError", id="no-such-program"),
    ],
)
def test_reasons(node: TempoletNode, command: list[str], limit: str, code: int, reason: str) -> None:
    """Exit code and reason of a container that runs once."""
    manifest: dict[str, Any] = pod_manifest("ends", restartPolicy="Never")
    manifest["spec"]["containers"][0] |= {"command": command}
    if limit:
        manifest["spec"]["containers"][0]["resources"] = {"limits": {"memory": limit}}
    node.apply(manifest)
    snapshot = node.until_pod("ends", lambda one: one.lifecycle == "terminated")
    end = snapshot.status["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"], snapshot.phase) == (code, reason, "Failed" if code else "Succeeded")
    node.take_away("ends")
