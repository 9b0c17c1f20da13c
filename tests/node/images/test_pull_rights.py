"""Is an image pulled with the pod's own credentials, which stay secret, and denied to pods without credentials?"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.node.images.pull_nodes import pull_secret, pulling, served
from tests.node.images.registry import Registry
from tests.node.kept_objects import put_object
from tests.node.pod_story import story
from tests.node.secrets.searched_files import content_of, files_below
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

PASSWORD = "canary-7Q/+ x"
LOGIN = f"robot:{PASSWORD}"
AS_PROGRAMS = True  # what /proc shows of them must have no secret


@pytest.fixture
def registry(containerd: Containerd) -> Iterator[Registry]:
    """Serve an image that needs credentials; an error quotes those that were sent."""
    with served(containerd, label=uuid4().hex, login=LOGIN, echoing=True) as made:
        yield made


def everything_said(node: TempoletNode, temporal: TemporalServer) -> Iterator[tuple[str, bytes]]:
    """Return everything that the node and its Temporal have written, except the files of the Secrets."""
    for process in node.processes.values():
        yield f"environment of {process.pid}", Path(f"/proc/{process.pid}/environ").read_bytes()
    for folder in (node.directory, temporal.database.parent):
        for path in files_below(folder):
            if node.objects not in path.parents:
                yield str(path), content_of(path)


def test_a_secret_s_login_pulls_and_nobody_else_has_the_image(
    node: TempoletNode, registry: Registry, temporal: TemporalServer
) -> None:
    """One pod pulls with its secret, another with the same secret uses the image, a third without one is refused; no secret leaks."""
    image = f"{registry.host}/team/app:1"
    put_object(node, "secrets", "old", **pull_secret(registry.host, "robot:wrong-canary-7Q"))
    put_object(node, "secrets", "login", **pull_secret(registry.host, LOGIN))
    node.apply(pulling("owner", image, "old", "login"))
    node.until_running("owner")
    asked = registry.tags_asked
    node.apply(pulling("friend", image, "login"))
    node.until_running("friend")
    assert registry.tags_asked == asked
    node.apply(pulling("stranger", image))
    stranger = node.until_pod("stranger", lambda one: one.reason == "ErrImagePull")
    assert "401" in stranger.message or "authorization failed" in stranger.message
    assert (
        f"the image is on this node, pulled with a login for {registry.host}/team/app: this pod has" in stranger.message
    )
    node.apply(pulling("never", image, policy="Never"))
    never = node.until_pod("never", lambda one: one.reason == "ErrImageNeverPull")
    assert never.message.endswith(f'Container image "{image}" is not present with pull policy of Never')
    records = [json.loads(one.read_text()) for one in (node.root_dir / "image_manager/pulled").iterdir()]
    (rights,) = [one["credentialMapping"][f"{registry.host}/team/app"] for one in records if registry.host in str(one)]
    assert [one["name"] for one in rights["kubernetesSecrets"]] == ["login"]
    told = [where for where, text in everything_said(node, temporal) if b"canary-7Q" in text]
    assert told == []
    for name in ("owner", "friend", "stranger", "never"):
        snapshot = node.pod(name)
        assert snapshot is not None
        assert "canary-7Q" not in "\n".join(story(node, snapshot))
    for name in ("owner", "friend", "stranger", "never"):
        node.remove(name)


def test_records_that_an_operator_removes_bar_nobody(node: TempoletNode, registry: Registry) -> None:
    """While the worker runs: a refused pod gets the image, and the next pull writes its record."""
    image = f"{registry.host}/team/freed:1"
    put_object(node, "secrets", "freeing", **pull_secret(registry.host, LOGIN))
    node.apply(pulling("holder", image, "freeing"))
    node.until_running("holder")
    node.apply(pulling("barred", image))
    node.until_pod("barred", lambda one: one.reason == "ErrImagePull")
    shutil.rmtree(node.root_dir / "image_manager")
    node.until_running("barred")
    node.apply(pulling("after", f"{registry.host}/team/after:1", "freeing"))
    node.until_running("after")
    records = node.root_dir / "image_manager" / "pulled"
    node.until(lambda: records.is_dir() and list(records.iterdir()), "the record of the next pull")
    for name in ("holder", "barred", "after"):
        node.remove(name)


def test_a_wrong_login_is_quoted_by_nobody(node: TempoletNode, registry: Registry) -> None:
    """Not even if the registry itself quotes it; with the right ones the pod starts by itself."""
    put_object(node, "secrets", "rotated", **pull_secret(registry.host, "robot:wrong-canary-7Q"))
    node.apply(pulling("rotated", f"{registry.host}/team/rotated:1", "rotated"))
    failed = node.until_pod("rotated", lambda one: one.reason == "ErrImagePull")
    assert "canary-7Q" not in failed.message
    put_object(node, "secrets", "rotated", **pull_secret(registry.host, LOGIN))
    node.until_running("rotated")
    node.remove("rotated")


def test_a_missing_secret_does_not_hold_the_pod_up(node: TempoletNode, containerd: Containerd) -> None:
    """The image is public, and the history has the kubelet's message."""
    with served(containerd, label="public") as registry:
        node.apply(pulling("missing", f"{registry.host}/public:1", "nowhere"))
        snapshot = node.until_running("missing")
        told = story(node, snapshot)
        words = "Unable to retrieve some image pull secrets (nowhere); attempting to pull the image may not succeed."
        assert [one for one in told if one.startswith(f"FailedToRetrieveImagePullSecret: {words}")]
        node.remove("missing")


def test_a_credential_provider_s_login_pulls(
    tmp_path: Path, containerd: Containerd, temporal: TemporalServer, registry: Registry
) -> None:
    """A plugin on the node provides them; then every pod may use the image."""
    programs = tmp_path / "providers"
    programs.mkdir()
    host = registry.host
    answer = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "cacheDuration": "1h",
        "auth": {host: {"username": "robot", "password": PASSWORD}},
    }
    (programs / "answer.json").write_text(json.dumps(answer))
    (programs / "provider").write_text(f"#!/bin/sh\necho run >> {programs}/runs\ncat {programs}/answer.json\n")
    (programs / "provider").chmod(0o755)
    provider = {
        "name": "provider",
        "matchImages": [host],
        "defaultCacheDuration": "0s",
        "apiVersion": answer["apiVersion"],
    }
    config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [provider]}
    (programs / "config.json").write_text(json.dumps(config))
    flags = [
        f"--image-credential-provider-config={programs}/config.json",
        f"--image-credential-provider-bin-dir={programs}",
    ]
    with TempoletNode(tmp_path / "node", containerd, temporal, flags=flags) as node:
        node.until_started()
        for name in ("provided", "beside"):
            node.apply(pulling(name, f"{host}/provided:1"))
            node.until_running(name)
        node.apply(pulling("again", f"{host}/again:1"))
        node.until_running("again")
        assert (programs / "runs").read_text().splitlines() == ["run"]


def test_a_pull_that_a_killed_worker_had_begun_is_pulled_by_the_next(
    node: TempoletNode, containerd: Containerd
) -> None:
    """With the pod's own credentials; the pulling record that was left is removed afterwards."""
    with served(containerd, label="killed", login=LOGIN, seconds_a_manifest=1.5) as registry:
        put_object(node, "secrets", "killed", **pull_secret(registry.host, LOGIN))
        node.apply(pulling("killed", f"{registry.host}/killed:1", "killed"))
        intents = node.root_dir / "image_manager" / "pulling"
        node.until(lambda: intents.is_dir() and list(intents.iterdir()), "the pull's intent on the disk")
        node.processes["worker"].kill()
        node.processes.pop("worker").wait()
        node.start("worker")
        node.until_running("killed")
        node.until(lambda: not list(intents.iterdir()), "the intent gone")
        node.remove("killed")


def test_the_records_are_what_go_would_write(node: TempoletNode, registry: Registry) -> None:
    """No temporary file is left, and each record is complete."""
    put_object(node, "secrets", "recorded", **pull_secret(registry.host, LOGIN))
    node.apply(pulling("recorded", f"{registry.host}/team/recorded:1", "recorded"))
    node.until_running("recorded")
    folder = node.root_dir / "image_manager"
    node.until(lambda: any(registry.host.encode() in content_of(one) for one in files_below(folder)), "its record")
    node.until(lambda: not list((folder / "pulling").iterdir()), "its intent gone")
    for path in files_below(folder):
        assert path.name.startswith("sha256-")
        assert json.loads(path.read_text())["kind"] in {"ImagePulledRecord", "ImagePullIntent"}
    node.remove("recorded")
