"""Does a node pull from the registry that Debian ships, with and without a password?"""

from pathlib import Path

import pytest

from tests.node.images.debian_registry import PASSWORD, USER, DebianRegistry, program
from tests.node.images.pull_nodes import allow, pull_secret, pulling
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd

pytestmark = pytest.mark.skipif(
    not program().exists(), reason="needs Debian's docker-registry: python3 -m deploy.setup --dev"
)


def archive_of(containerd: Containerd) -> Path:
    """Find busybox's archive."""
    (archive,) = (containerd.parts_dir / "images").glob("busybox*.tar")
    return archive


def test_without_a_password(node: TempoletNode, containerd: Containerd, tmp_path: Path) -> None:
    """An existing image is pulled; a missing one is not found."""
    with DebianRegistry(tmp_path / "registry") as registry:
        allow(containerd, registry.host)
        registry.push(archive_of(containerd), "team/app", "1")
        node.apply(pulling("open", f"{registry.host}/team/app:1"))
        node.until_running("open")
        node.apply(pulling("absent", f"{registry.host}/team/other:1"))
        absent = node.until_pod("absent", lambda one: one.reason == "ErrImagePull")
        assert "not found" in absent.message
        for name in ("open", "absent"):
            node.remove(name)


def test_with_a_password(node: TempoletNode, containerd: Containerd, tmp_path: Path) -> None:
    """It is pulled with the second of the pod's secrets, after the first was refused; without one the pull fails."""
    with DebianRegistry(tmp_path / "registry", guarded=True) as registry:
        allow(containerd, registry.host)
        registry.push(archive_of(containerd), "team/guarded", "1")
        image = f"{registry.host}/team/guarded:1"
        put_object(node, "secrets", "wrong", **pull_secret(registry.host, f"{USER}:wrong"))
        put_object(node, "secrets", "right", **pull_secret(f"https://{registry.host}/v2/", f"{USER}:{PASSWORD}"))
        node.apply(pulling("refused", image))
        refused = node.until_pod("refused", lambda one: one.reason == "ErrImagePull")
        assert "authorization failed" in refused.message or "401" in refused.message
        node.apply(pulling("taken", image, "wrong", "right", policy="Always"))
        node.until_running("taken")
        for name in ("refused", "taken"):
            node.remove(name)
