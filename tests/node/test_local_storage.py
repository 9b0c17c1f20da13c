"""Does a pod on real containerd end for what it writes to the node's disk, with the kubelet's words, and only then?"""

import signal
from typing import Any

from tests.node.pod_story import story
from tests.node.tempolet_node import TempoletNode, pod_manifest

PATIENCE = 40
"""Two looks, and the stop."""


def writing(name: str, megabytes: int, limit: str = "2Mi", **spec: Any) -> dict[str, Any]:
    """Write a pod that fills its emptyDir so far, and waits."""
    command = f"dd if=/dev/zero of=/data/big bs=1M count={megabytes}; ln /data/big /data/again; sleep 3600"
    manifest = pod_manifest(name, command, volumes=[{"name": "data", "emptyDir": {"sizeLimit": limit}}], **spec)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return manifest


def test_a_pod_that_fills_its_empty_dir_is_evicted(node: TempoletNode) -> None:
    """With another worker than the one that started it; one below its limit, and one of the system, live."""
    node.apply(writing("below", 1))
    node.apply(writing("vital", 4, priorityClassName="system-node-critical", priority=2_000_001_000))
    node.apply(writing("full", 4))
    full = node.until_running("full")
    node.until_running("below")
    node.until_running("vital")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")

    def failed() -> bool:
        pod = node.pod("full")
        return pod is not None and pod.lifecycle == "terminated"

    node.until(failed, "the full one ended", PATIENCE)
    shown = node.pod("full")
    assert shown is not None
    assert (shown.phase, shown.reason) == ("Failed", "Evicted")
    assert shown.status["message"] == 'Usage of EmptyDir volume "data" exceeds the limit "2Mi". '
    assert all(one["type"] != "DisruptionTarget" for one in shown.status["conditions"])
    told = story(node, full)
    assert sum(one.startswith("volume data holds more than its sizeLimit: 4") for one in told) == 1
    assert any("stopped" in one and "Evicted: Usage of EmptyDir" in one for one in told)
    for name in ("below", "vital"):
        lives = node.pod(name)
        assert lives is not None
        assert (lives.phase, lives.ready, lives.restarts) == ("Running", True, 0)
        assert not any("sizeLimit" in one for one in story(node, lives))
