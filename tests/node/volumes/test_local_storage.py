"""Is a pod on real containerd evicted for exceeding its local storage, with the kubelet's message, and only then?"""

import signal
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.pod_story import story
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest


def writing(name: str, megabytes: int, limit: str = "2Mi", **spec: Any) -> dict[str, Any]:
    """Build a pod that writes this much into its emptyDir, and waits."""
    command = f"dd if=/dev/zero of=/data/big bs=1M count={megabytes}; ln /data/big /data/again; sleep 3600"
    manifest = pod_manifest(name, command, volumes=[{"name": "data", "emptyDir": {"sizeLimit": limit}}], **spec)
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return manifest


def test_a_pod_that_fills_its_empty_dir_is_evicted(node: TempoletNode) -> None:
    """By another worker than the one that started it; a pod below its limit and a system pod keep running."""
    node.apply(writing("below", 1))
    node.apply(writing("vital", 4, priorityClassName="system-node-critical", priority=2_000_001_000))
    node.apply(writing("full", 4))
    full = until_begun(node, "full")
    node.until_running("below")
    node.until_running("vital")
    node.stop("worker", signal.SIGKILL)
    node.start("worker")

    def failed() -> bool:
        pod = node.pod("full")
        return pod is not None and pod.lifecycle == "terminated"

    node.until(failed, "the full one ended")
    shown = node.pod("full")
    assert shown is not None
    assert (shown.phase, shown.reason) == ("Failed", "Evicted")
    assert shown.status["message"] == 'Usage of EmptyDir volume "data" exceeds the limit "2Mi". '
    assert all(one["type"] != "DisruptionTarget" for one in shown.status["conditions"])
    told = story(node, full)
    assert sum(one.startswith("volume data exceeds its sizeLimit: 4") for one in told) == 1
    assert any("stopped" in one and "Evicted: Usage of EmptyDir" in one for one in told)
    for name in ("below", "vital"):
        lives = node.pod(name)
        assert lives is not None
        assert (lives.phase, lives.ready, lives.restarts) == ("Running", True, 0)
        assert not any("sizeLimit" in one for one in story(node, lives))


def test_containers_that_write_too_much_are_evicted(node: TempoletNode) -> None:
    """For their root file system or their logs; one container alone, or the whole pod; a pod below its limits keeps running."""
    fills = "dd if=/dev/zero of=/big bs=1M count=4; sleep 3600"
    node.apply(limited("root", {"small": ("2Mi", fills), "large": ("9Mi", "sleep 3600")}))
    node.apply(limited("logs", {"small": ("1Mi", "yes | head -c 300000; sleep 3600"), "large": ("9Mi", "sleep 3600")}))
    node.apply(limited("whole", {"one": ("3Mi", fills)}))
    node.apply(limited("lives", {"one": ("9Mi", fills)}))
    for name in ("root", "logs", "whole", "lives"):
        until_begun(node, name)
    expected = {
        "root": 'Container small exceeded its local ephemeral storage limit "2Mi". ',
        "logs": 'Container small exceeded its local ephemeral storage limit "1Mi". ',
        "whole": "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ",
    }
    for name, words in expected.items():
        node.until(lambda name=name: getattr(node.pod(name), "phase", "") == "Failed", f"{name} ended")  # type: ignore[misc]  # a default
        shown = node.pod(name)
        assert shown is not None
        assert (shown.reason, shown.status["message"][: len(words)]) == ("Evicted", words)
        assert sum("its ephemeral-storage limit" in one for one in story(node, shown)) == 1
    lives = node.pod("lives")
    assert lives is not None
    assert (lives.phase, lives.ready, lives.restarts) == ("Running", True, 0)


def until_begun(node: TempoletNode, name: str) -> PodSnapshot:
    """Wait until a pod runs, or has run: it may be evicted at once."""
    return node.until_pod(name, lambda one: one.phase != "Pending", f"{name} begun")


def limited(name: str, containers: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Build a pod of containers by name, each with its limit and command."""
    written = [
        {
            "name": one,
            "image": BUSYBOX,
            "command": ["sh", "-c", command],
            "resources": {"limits": {"ephemeral-storage": limit}},
        }
        for one, (limit, command) in containers.items()
    ]
    return pod_manifest(name, containers=written, terminationGracePeriodSeconds=1)
