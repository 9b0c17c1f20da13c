"""Is an image pulled when its policy says so, once for all waiting pods, and again after a failure?"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tests.node.images.pull_nodes import pulling, served
from tests.node.images.registry import Registry
from tests.node.pod_story import story
from tests.node.tempolet_node import STARTS_WITHIN, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd


@pytest.fixture
def registry(containerd: Containerd) -> Iterator[Registry]:
    """Serve busybox under any name."""
    with served(containerd) as made:
        yield made


def test_one_pull_serves_all_who_wait(node: TempoletNode, registry: Registry) -> None:
    """Three pods with one missing image resolve its tag once; once it is present, the registry is not asked."""
    for number in range(3):
        manifest = pod_manifest(f"pull-{number}")
        manifest["spec"]["containers"][0] |= {"image": f"{registry.host}/busybox:1", "imagePullPolicy": "IfNotPresent"}
        node.apply(manifest)
    for number in range(3):
        node.until_running(f"pull-{number}")
    first = registry.tags_asked
    later = pod_manifest("pull-later")
    later["spec"]["containers"][0] |= {"image": f"{registry.host}/busybox:1", "imagePullPolicy": "IfNotPresent"}
    node.apply(later)
    node.until_running("pull-later")
    # containerd resolves a tag with HEAD and then GET: two requests are one pull
    assert 1 <= first <= 2
    assert registry.tags_asked == first


def test_always_asks_the_registry_at_every_start(node: TempoletNode, registry: Registry) -> None:
    """Even if the image is present, and again for a restart."""
    manifest = pod_manifest("always", "exit 1")
    manifest["spec"]["containers"][0] |= {"image": f"{registry.host}/always:1", "imagePullPolicy": "Always"}
    node.apply(manifest)
    node.until_pod("always", lambda one: one.restarts >= 1)
    assert registry.tags_asked >= 2


def test_a_registry_that_fails_is_asked_again(node: TempoletNode, registry: Registry) -> None:
    """ErrImagePull with the registry's message, and the pod runs once the registry works."""
    registry.failing_with = HTTPStatus.INTERNAL_SERVER_ERROR
    manifest = pod_manifest("later")
    manifest["spec"]["containers"][0] |= {"image": f"{registry.host}/later:1", "imagePullPolicy": "IfNotPresent"}
    node.apply(manifest)
    failed = node.until_pod("later", lambda one: one.reason == "ErrImagePull")
    assert "500" in failed.message
    registry.failing_with = None
    node.until_running("later")


@pytest.mark.parametrize("many", [pytest.param(8), pytest.param(50, marks=pytest.mark.stress)])
def test_many_pods_of_one_absent_image_are_one_pull(node: TempoletNode, registry: Registry, many: int) -> None:
    """They all wait for the same response of the registry."""
    registry.seconds_a_manifest = 1.0
    names = [f"many-{number}" for number in range(many)]
    for name in names:
        node.apply(pulling(name, f"{registry.host}/many-{many}:1"))
    node.until(
        lambda: all((one := node.pod(name)) and one.phase == "Running" for name in names),
        "all of them run",
        STARTS_WITHIN,
    )
    assert 1 <= registry.tags_asked <= 2  # HEAD, and then GET
    for name in names:
        node.remove(name)


def test_a_pull_is_told_with_its_time_and_size(node: TempoletNode, registry: Registry) -> None:
    """The duration, the part of it spent waiting for other pulls, and the bytes."""
    registry.seconds_a_manifest = 0.5
    node.apply(pulling("told", f"{registry.host}/told:1"))
    (line,) = [one for one in story(node, node.until_running("told")) if "/told:1 pulled in" in one]
    assert line.endswith(" MB")
    node.remove("told")


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        pytest.param({"failing_with": HTTPStatus.NOT_FOUND}, "not found", id="404"),
        pytest.param({"failing_with": HTTPStatus.UNAUTHORIZED}, "authorization failed", id="401"),
        pytest.param({"truncated": True}, "EOF", id="truncated"),
        pytest.param({"redirecting": True}, "redirects", id="to-itself"),
    ],
)
def test_what_a_registry_answers_is_told(
    node: TempoletNode, containerd: Containerd, answers: dict[str, Any], words: str
) -> None:
    """ErrImagePull with the registry's message; other pods are not affected."""
    with served(containerd, label=words, **answers) as registry:
        name = f"answered-{words.replace(' ', '-').lower()}"
        node.apply(pulling(name, f"{registry.host}/answered:1"))
        failed = node.until_pod(name, lambda one: one.reason == "ErrImagePull")
        assert words in failed.message
        node.remove(name)


def test_layers_without_end_end_with_their_pod(node: TempoletNode, containerd: Containerd) -> None:
    """The runtime reads as long as data arrives; no other pod waits, and the pull stops when the pod is deleted."""
    with served(containerd, label="endless", endless=True) as registry:
        node.apply(pulling("endless", f"{registry.host}/endless:1"))
        node.until(lambda: registry.sent > 4 << 20, "its layer coming")
        node.apply(pod_manifest("beside-endless"))
        node.until_running("beside-endless")
        node.take_away("endless")
        node.until(lambda: registry.listeners == 0, "nobody reading")
    node.remove("beside-endless")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        pytest.param("Busy/BOX", "InvalidImageName", id="uppercase"),
        pytest.param("x" * 5000, "InvalidImageName", id="5000-characters"),
        pytest.param(f"{'é' * 2500}", "InvalidImageName", id="5000-bytes"),
        pytest.param(f"busybox@sha256:{'0' * 63}", "InvalidImageName", id="a-short-digest"),
        pytest.param(f"busybox:1.37@sha256:{'0' * 64}", "ErrImagePull", id="a-digest-of-nothing"),
        pytest.param("-o", "InvalidImageName", id="an-option"),
        pytest.param("$(reboot)", "InvalidImageName", id="a-command"),
    ],
)
def test_a_name_that_is_none(node: TempoletNode, image: str, reason: str) -> None:
    """The pod waits with its reason, the node keeps working, and the pod can be deleted."""
    node.apply(pulling("nameless", image))
    node.until_pod("nameless", lambda one: one.reason == reason)
    node.take_away("nameless")
