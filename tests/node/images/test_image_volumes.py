"""Does a container on real containerd see the files of an image volume, read-only, and is a failure reported?"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.node.images.pull_nodes import served
from tests.node.images.registry import Registry
from tests.node.pod_story import log_lines, log_path, story
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd


@pytest.fixture
def registry(containerd: Containerd) -> Iterator[Registry]:
    """Serve busybox under any name, as an image other than the container's own."""
    with served(containerd, label="shown in a volume") as made:
        yield made


def showing(name: str, reference: str, command: str, **mount: Any) -> dict[str, Any]:
    """Build a pod that mounts an image at /tool."""
    image = {"reference": reference, "pullPolicy": "IfNotPresent"}
    manifest = pod_manifest(name, command, volumes=[{"name": "tool", "image": image}])
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "tool", "mountPath": "/tool", **mount}]
    return manifest


def test_an_image_is_pulled_and_shown_read_only(node: TempoletNode, registry: Registry) -> None:
    """Its files are there and read-only; the story reports the pull."""
    reference = f"{registry.host}/tool:1"
    command = "/tool/bin/busybox echo runs; touch /tool/new 2>/dev/null || echo refused; sleep 3600"
    node.apply(showing("image", reference, command))
    snapshot = node.until_running("image")
    node.until(lambda: log_lines(log_path(node, snapshot)) == ["runs", "refused"], "both lines")
    assert any(reference in one and "pulled" in one for one in story(node, snapshot))
    [status] = snapshot.status["containerStatuses"]
    assert status["volumeMounts"] == [{"name": "tool", "mountPath": "/tool"}]


def test_one_folder_of_an_image(node: TempoletNode, registry: Registry) -> None:
    """By subPath; a containerd before 2.2 would mount the whole image, so there the container waits and reports the reason."""
    node.apply(showing("folder", f"{registry.host}/tool:1", "ls /tool; sleep 3600", subPath="bin"))
    snapshot = node.until_pod("folder", lambda one: one.ready or one.reason == "CreateContainerConfigError")
    if snapshot.ready:
        node.until(lambda: "sh" in log_lines(log_path(node, snapshot)), "what is in the folder")
    else:
        assert "ignores the subPath of an image" in snapshot.message


def test_an_image_that_is_not_to_be_had(node: TempoletNode, registry: Registry) -> None:
    """Its container waits with the kubelet's reason, and starts once the image exists."""
    manifest = showing("absent", f"{registry.host}/absent:1", "sleep 3600")
    manifest["spec"]["volumes"][0]["image"]["pullPolicy"] = "Never"
    node.apply(manifest)
    waiting = node.until_pod("absent", lambda one: one.reason == "ErrImageNeverPull")
    assert waiting.message == f'Container image "{registry.host}/absent:1" is not present with pull policy of Never'
