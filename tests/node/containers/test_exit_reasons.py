"""Does a pod report how its container exited with the kubelet's reasons, on real containerd?

Exits by a signal (128 and its number) are in test_pod_lives: a container's first process receives only signals from outside.
"""

from typing import Any

import pytest

from tests.node.tempolet_node import TempoletNode, pod_manifest

EAT = "dd if=/dev/zero of=/dev/null bs=200M count=1000"
"""Needs more memory than the limit; dd writes to its whole buffer."""
NODE_KEYS: dict[str, object] = {}
"""Empty: the kubelet's back-off applies."""


@pytest.mark.parametrize(
    ("command", "limit", "code", "reason"),
    [
        pytest.param(["true"], "", 0, "Completed", id="success"),
        pytest.param(["sh", "-c", "exit 3"], "", 3, "Error", id="failure"),
        # the shell survives the killed process: containerd sees both exits in any order, and says Error if it sees the shell's first
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
