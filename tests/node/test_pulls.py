"""Is an image pulled from a registry when its policy says so, once for all who wait, and again after it failed?"""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.node.registry import Registry
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture
def registry(containerd: Containerd) -> Iterator[Registry]:
    """Serve busybox under any name."""
    (archive,) = (containerd.parts_dir / "images").glob("busybox*.tar")
    with Registry(archive) as made:
        hosts = containerd.places.registries / made.host / "hosts.toml"
        hosts.parent.mkdir(parents=True)
        hosts.write_text(f'server = "http://{made.host}"\n')
        yield made


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, temporal: TemporalServer
) -> Iterator[TempoletNode]:
    """Run one node for all pulls."""
    with TempoletNode(tmp_path_factory.mktemp("pulls"), containerd, temporal) as made:
        yield made


def test_one_pull_serves_all_who_wait(node: TempoletNode, registry: Registry) -> None:
    """Three pods of one missing image, one resolution of its tag; afterwards it is present and nobody asks."""
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
    # containerd resolves a tag by HEAD and then GET: two requests are one pull
    assert 1 <= first <= 2
    assert registry.tags_asked == first


def test_always_asks_the_registry_at_every_start(node: TempoletNode, registry: Registry) -> None:
    """Also when the image is there, and again for a restart."""
    manifest = pod_manifest("always", "exit 1")
    manifest["spec"]["containers"][0] |= {"image": f"{registry.host}/always:1", "imagePullPolicy": "Always"}
    node.apply(manifest)
    node.until_pod("always", lambda one: one.restarts == 1)
    assert registry.tags_asked >= 2


def test_a_registry_that_fails_is_asked_again(node: TempoletNode, registry: Registry) -> None:
    """ErrImagePull with the registry's answer, and the pod runs once the registry answers."""
    registry.failing_with = HTTPStatus.INTERNAL_SERVER_ERROR
    manifest = pod_manifest("later")
    manifest["spec"]["containers"][0] |= {"image": f"{registry.host}/later:1", "imagePullPolicy": "IfNotPresent"}
    node.apply(manifest)
    failed = node.until_pod("later", lambda one: one.reason == "ErrImagePull")
    assert "500" in failed.message
    registry.failing_with = None
    node.until_running("later")
