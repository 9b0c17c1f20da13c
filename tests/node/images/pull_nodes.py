"""A registry that a node's containerd may pull from, and pull secrets, for the tests of pulls."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.node.images.registry import Registry
from tests.node.tempolet_node import pod_manifest
from worker.standalone.containerd import Containerd


@contextmanager
def served(containerd: Containerd, **registry: Any) -> Iterator[Registry]:
    """Serve busybox under any name over plain HTTP; it differs from the node's own image, and needs no credentials."""
    (archive,) = (containerd.parts_dir / "images").glob("busybox*.tar")
    with Registry(archive, **{"label": "pulled", **registry}) as made:
        allow(containerd, made.host)
        yield made


def allow(containerd: Containerd, host: str) -> None:
    """Let containerd use plain HTTP for a registry; it reads this at each pull."""
    hosts = containerd.places.registries / host / "hosts.toml"
    hosts.parent.mkdir(parents=True, exist_ok=True)  # an earlier registry may have had the same free port
    hosts.write_text(f'server = "http://{host}"\n')


def pull_secret(host: str, login: str) -> dict[str, Any]:
    """Build a Secret as `kubectl create secret docker-registry` does."""
    config = {"auths": {host: {"auth": base64.b64encode(login.encode()).decode()}}}
    return {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": json.dumps(config)}}


def pulling(name: str, image: str, *secrets: str, policy: str = "IfNotPresent", **spec: Any) -> dict[str, Any]:
    """Build a pod that pulls an image."""
    manifest = pod_manifest(name, **spec)
    manifest["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": policy}
    if secrets:
        manifest["spec"]["imagePullSecrets"] = [{"name": one} for one in secrets]
    return manifest
