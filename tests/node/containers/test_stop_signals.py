"""Which signal stops a container: its image's, SIGTERM, or the pod's, and is it reported if the runtime ignores the pod's?

A container logs the signal that it receives. The last question depends on the version of containerd: one before 2.3 ignores
the pod's stop signal.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.images.pull_nodes import served
from tests.node.images.registry import Registry
from tests.node.pod_story import log_path, story
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd

HEARS = 'for one in TERM USR1 INT; do trap "echo $one; exit 0" $one; done; echo up; sleep 3600 & wait'
IMAGE_SIGNAL = "SIGINT"
NODE_KEYS = {"featureGates": {"ContainerStopSignals": True}}


@pytest.fixture(scope="module")
def image(containerd: Containerd) -> Iterator[str]:
    """Serve a busybox whose image sets a stop signal."""
    with served(containerd, label="") as registry:
        name_stop_signal(registry, IMAGE_SIGNAL)
        yield f"{registry.host}/interrupted:1"


def name_stop_signal(registry: Registry, signal: str) -> None:
    """Write a stop signal into the configuration of the image that is served."""
    manifest = json.loads(registry.blobs[registry.manifest["digest"]])
    configuration = json.loads(registry.blobs[manifest["config"]["digest"]])
    configuration["config"]["StopSignal"] = signal
    content = json.dumps(configuration).encode()
    manifest["config"] |= {"digest": serve(registry, content), "size": len(content)}
    content = json.dumps(manifest).encode()
    registry.manifest = registry.manifest | {"digest": serve(registry, content), "size": len(content)}


def serve(registry: Registry, content: bytes) -> str:
    """Serve a blob; returns its digest."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    registry.blobs[digest] = content
    return digest


def heeds_stop_signals(containerd: Containerd) -> bool:
    """Return whether this session's containerd supports the pod's stop signal."""
    found = re.search(r"(\d+)\.(\d+)", containerd.start())
    assert found
    return (int(found[1]), int(found[2])) >= (2, 3)


def named(name: str, **container: Any) -> dict[str, Any]:
    """Build a manifest whose container is to be stopped with SIGUSR1."""
    manifest = pod_manifest(name, HEARS, terminationGracePeriodSeconds=20, os={"name": "linux"})
    manifest["spec"]["containers"][0] |= {"lifecycle": {"stopSignal": "SIGUSR1"}, **container}
    return manifest


def heard(node: TempoletNode, snapshot: PodSnapshot, keep: Path) -> str:
    """Stop a pod, and return the signal that its container received."""
    log = log_path(node, snapshot)
    node.until(lambda: log.exists() and " up" in log.read_text(), "its traps set")
    keep.hardlink_to(log)  # the log is removed with the pod
    name = snapshot.name.removesuffix(f"-{node.name}")
    node.take_away(name)
    return keep.read_text().split()[-1]


def test_an_images_stop_signal_stops_its_container(node: TempoletNode, image: str, tmp_path: Path) -> None:
    """The runtime reads it, so StopContainer needs no signal; a container without one gets SIGTERM."""
    manifest = pod_manifest("by-image", HEARS, terminationGracePeriodSeconds=20)
    manifest["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": "IfNotPresent"}
    node.apply(manifest)
    node.apply(pod_manifest("by-nobody", HEARS, terminationGracePeriodSeconds=20))
    assert heard(node, node.until_running("by-image"), tmp_path / "image") == "INT"
    assert heard(node, node.until_running("by-nobody"), tmp_path / "nobody") == "TERM"


def test_a_pods_stop_signal_counts_or_is_told_not_to(
    node: TempoletNode, image: str, containerd: Containerd, tmp_path: Path
) -> None:
    """If the runtime supports it, the status shows it; otherwise the history says that it is ignored."""
    node.apply(named("by-pod"))
    node.apply(named("by-pod-and-image", image=image, imagePullPolicy="IfNotPresent"))
    plain, both = node.until_running("by-pod"), node.until_running("by-pod-and-image")
    told = next(text for text in story(node, plain) if text.startswith("container main started"))
    if heeds_stop_signals(containerd):
        assert "ignores its stopSignal" not in told
        assert plain.status["containerStatuses"][0]["stopSignal"] == "SIGUSR1"
        assert heard(node, plain, tmp_path / "plain") == heard(node, both, tmp_path / "both") == "USR1"
    else:
        assert "the runtime ignores its stopSignal SIGUSR1: its image's, or SIGTERM will stop it" in told
        assert "stopSignal" not in plain.status["containerStatuses"][0]
        assert heard(node, plain, tmp_path / "plain") == "TERM"
        assert heard(node, both, tmp_path / "both") == "INT"
