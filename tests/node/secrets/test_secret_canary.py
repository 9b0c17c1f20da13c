"""Is a Secret's content found only in the container that uses it?

A canary is used in every way a Secret can be: single keys, all keys, a composed value, a volume, a pull secret, a command that
cannot be started, a path that is refused, a value that no environment can hold, a file with unsafe permissions. Then everything
that outlives it is searched for the canary and its base64: Temporal's files, exported histories (encrypted, and decrypted as the
UI's endpoint returns them), the commands' output, logs, the node's folder, what goes to systemd and its journal, and the
arguments and environments of the node's processes, while the pods start and fail, too.

Another canary stands in the configuration (the header and address of a manifest URL, a credential provider's answer), and
one in the words of a pod's spec, where whoever may read the spec may read it: in clear it may only be in the manifest, and
in the pod's snapshot if a probe or hook prints it, for that is the pod's status.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.kept_objects import object_file, put_object
from tests.node.operating import tempolet
from tests.node.pod_story import log_path, until_logged
from tests.node.secrets.searched_files import content_of, files_below, files_with
from tests.node.secrets.secret_sources import credential_provider, manifest_url
from tests.node.secrets.secret_traces import as_services, encrypted, exported, shapes, told_by, watched_processes
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

CANARY: Final = "cAnArY-7f3e9a51c2d84b60"
IN_SPECS: Final = "c4n4rY-0d6b2e8fa91735c4"
SHAPES: Final = shapes(CANARY)
HELD: Final = {
    "no-start": "RunContainerError StartError CrashLoopBackOff Error",
    "no-path": "CreateContainerConfigError",
    "no-value": "CreateContainerConfigError",
    "no-trust": "CreateContainerConfigError",
    "no-image": "ErrImagePull ImagePullBackOff",
    "no-login": "ErrImagePull ImagePullBackOff",
    "no-room": "RunContainerError StartError CrashLoopBackOff Error",
    "no-hook": "PostStartHookError CrashLoopBackOff Error",
    "no-health": "CrashLoopBackOff Error",
}
"""Pods that do not start, each with another failure, and the reasons that they may show."""
NODE_KEYS = {"logging": {"verbosity": 6}}
"""It logs as much as possible."""


@pytest.fixture(scope="module")
def told_systemd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[bytes]]:
    """Run the file's node as systemd would; its log is what the journal would get, and here is what else systemd is told."""
    with as_services(tmp_path_factory.mktemp("systemd")) as told:
        yield told


@pytest.fixture(scope="module")
def node(
    told_systemd: list[bytes],
    tmp_path_factory: pytest.TempPathFactory,
    containerd: Containerd,
    temporal: TemporalServer,
) -> Iterator[TempoletNode]:
    """Run the node of the file."""
    with tempolet_node(tmp_path_factory.mktemp("node"), containerd, temporal, keys=NODE_KEYS, as_programs=True) as made:
        assert told_systemd
        yield made


def key(name: str, secret: str = "canary", wanted: str = "key") -> dict[str, Any]:
    """Build a variable with a Secret's key."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": wanted}}}


def container(name: str, **fields: Any) -> dict[str, Any]:
    """Build a container with the canary in its environment."""
    return {"name": name, "image": BUSYBOX, "command": ["sleep", "3600"], "env": [key("SECRET")], **fields}


def put_secrets(node: TempoletNode) -> None:
    """Write the Secrets with the canary, one of them in a file that everybody may read."""
    put_object(node, "secrets", "canary", stringData={"key": CANARY, "nul": f"{CANARY}\0", "up": f"{CANARY}/../x"})
    logins = {"auths": {"127.0.0.1:9": {"username": "robot", "password": CANARY}}}
    put_object(
        node,
        "secrets",
        "login",
        type="kubernetes.io/dockerconfigjson",
        stringData={".dockerconfigjson": json.dumps(logins)},
    )
    broken = {"auths": {"127.0.0.1:9": {"auth": f"{CANARY}!"}}}
    put_object(
        node,
        "secrets",
        "broken-login",
        type="kubernetes.io/dockerconfigjson",
        stringData={".dockerconfigjson": json.dumps(broken)},
    )
    put_object(node, "secrets", "large", stringData={"key": CANARY * 10_000})
    put_object(node, "secrets", "open", stringData={"key": CANARY})
    object_file(node, "secrets", "open").chmod(0o644)


def manifests() -> Iterator[dict[str, Any]]:
    """Build the pod that runs and those that fail."""
    shows = "tr '\\0' '\\n' </proc/1/environ | grep -c cAnArY; grep -c cAnArY /secret/key; echo end; sleep 3600"
    yield pod_manifest(
        "finds",
        containers=[
            container(
                "main",
                command=["sh", "-c", shows],
                env=[key("SECRET"), {"name": "URL", "value": "db://$(SECRET)@db"}],
                envFrom=[{"prefix": "ALL_", "secretRef": {"name": "canary-all"}}],
                volumeMounts=[{"name": "secret", "mountPath": "/secret"}],
            )
        ],
        volumes=[{"name": "secret", "secret": {"secretName": "canary"}}],
    )
    yield pod_manifest("no-start", containers=[container("main", command=["$(SECRET)", "$(SECRET)"])])
    mount = {"name": "data", "mountPath": "/data", "subPathExpr": "$(SECRET)"}
    refused = container("main", env=[key("SECRET", wanted="up")], volumeMounts=[mount])
    yield pod_manifest("no-path", containers=[refused], volumes=[{"name": "data", "emptyDir": {}}])
    yield pod_manifest("no-value", containers=[container("main", env=[key("SECRET", wanted="nul")])])
    yield pod_manifest("no-trust", containers=[container("main", env=[key("SECRET", secret="open")])])
    pulls = container("main", image="127.0.0.1:9/none:1", env=[])
    yield pod_manifest("no-image", containers=[pulls], imagePullSecrets=[{"name": "login"}])
    yield pod_manifest("no-login", containers=[pulls], imagePullSecrets=[{"name": "broken-login"}])
    large = container("main", env=[key("SECRET", secret="large")], command=["echo", "$(SECRET)"])
    yield pod_manifest("no-room", containers=[large])
    runs = {"exec": {"command": ["/none/$(SECRET)"]}}
    asks = {"httpGet": {"port": 9, "path": "/$(SECRET)", "httpHeaders": [{"name": "A", "value": "$(SECRET)"}]}}
    yield pod_manifest("no-hook", containers=[container("main", lifecycle={"postStart": runs})])
    often = {"periodSeconds": 1, "failureThreshold": 1}
    probes = {"livenessProbe": runs | often, "readinessProbe": runs | often, "startupProbe": asks | often}
    yield pod_manifest("no-health", containers=[container("main", **probes)])


def is_held(reasons: str, snapshot: PodSnapshot) -> bool:
    """Return whether a pod shows one of these reasons."""
    return snapshot.reason in reasons.split() and bool(snapshot.message)


def has_restarted(snapshot: PodSnapshot) -> bool:
    """Return whether a container of a pod was started again."""
    return any(one["restartCount"] for one in snapshot.status.get("containerStatuses", ()))


def found_in(content: bytes) -> bool:
    """Return whether the content has the canary."""
    return any(shape in content for shape in SHAPES)


def files_with_canary(*folders: Path, but: tuple[Path, ...] = ()) -> list[Path]:
    """Search every file of these folders, except those of volumes, which belong to the container."""
    files = (path for folder in folders for path in files_below(folder))
    ours = (path for path in files if not any(path.is_relative_to(one) for one in but))
    return [path for path in ours if "volumes" not in path.parts and found_in(content_of(path))]


def test_a_secret_is_found_nowhere_but_in_its_container(
    node: TempoletNode, containerd: Containerd, temporal: TemporalServer, told_systemd: list[bytes]
) -> None:
    """While the pods exist, and after their deletion."""
    with watched_processes(containerd.socket.parent, SHAPES) as seen:
        let_pods_start_and_fail(node, temporal)
    assert seen == set()
    assert not any(map(found_in, told_systemd))


def let_pods_start_and_fail(node: TempoletNode, temporal: TemporalServer) -> None:
    """Use the canary in every way, and search for it."""
    put_secrets(node)
    put_object(node, "secrets", "canary-all", stringData={"key": CANARY})
    for manifest in manifests():
        node.apply(manifest)
    log = log_path(node, node.until_running("finds"))
    assert until_logged(node, log, "end") == ["3", "1", "end"]
    for name, reasons in HELD.items():
        node.until_pod(name, partial(is_held, reasons), f"{name} held")
    pods = node.snapshots()
    assert {one.name.removesuffix(f"-{node.name}") for one in pods} == {"finds", *HELD}
    for snapshot in pods:
        assert not found_in(told_by(node, snapshot).encode()), snapshot.name
    assert not found_in(tempolet(node, "pods")[1].encode())
    assert len(files_with_canary(node.objects)) == 6, "it is found where it is"
    assert files_with_canary(node.directory, temporal.root, but=(node.objects,)) == []
    node.remove_all()
    for snapshot in pods:
        assert not found_in(exported(node, snapshot).encode()), snapshot.name
    assert files_with_canary(node.directory, temporal.root, but=(node.objects,)) == []
    node.until(lambda: not [*files_below(node.root_dir / "pods")], "no file of a pod")


def test_what_configuration_and_specs_say_is_in_clear_nowhere_else(
    tmp_path: Path, containerd: Containerd, temporal: TemporalServer
) -> None:
    """Also when the server, the provider, a probe and a hook fail and quote it."""
    runs = {"exec": {"command": ["sh", "-c", f"echo {IN_SPECS} >&2; exit 1"]}}
    asks = {"httpGet": {"port": 9, "path": f"/{IN_SPECS}", "httpHeaders": [{"name": "A", "value": IN_SPECS}]}}
    often = {"periodSeconds": 1, "failureThreshold": 1}
    probes = {"readinessProbe": asks | often, "livenessProbe": runs | often}
    env = [{"name": "TOKEN", "value": IN_SPECS}]
    command = ["sh", "-c", f": {IN_SPECS}; sleep 3600"]
    probed = container("main", env=env, command=command, **probes)
    listed = [pod_manifest("listed", containers=[probed])]
    hooked = pod_manifest("hooked", containers=[container("main", env=env, lifecycle={"postStart": runs})])
    pulls = container("main", image="127.0.0.1:9/none:1", env=[])
    provider = tmp_path / "provider"
    flags = credential_provider(provider, CANARY, "127.0.0.1:9")
    logs = {"logging": {"verbosity": 6, "format": "json"}}
    with (
        watched_processes(containerd.socket.parent, SHAPES) as seen,
        as_services(tmp_path) as told,
        manifest_url(CANARY, listed) as keys,
        tempolet_node(tmp_path / "node", containerd, temporal, keys=logs | keys, flags=flags, as_programs=True) as node,
    ):
        node.apply(hooked)
        node.apply(pod_manifest("provided", containers=[pulls]))
        for name, reasons in (
            ("hooked", "PostStartHookError CrashLoopBackOff Error"),
            ("provided", "ErrImagePull ImagePullBackOff"),
        ):
            node.until_pod(name, partial(is_held, reasons), f"{name} held")
        node.until_pod("listed", has_restarted, "listed ended by its liveness probe")
        for snapshot in node.snapshots():
            assert not found_in(told_by(node, snapshot).encode()), snapshot.name
            assert IN_SPECS not in encrypted(node, snapshot), snapshot.name
        assert not found_in(tempolet(node, "pods")[1].encode())
        last_words = node.root_dir / "tempolet" / "credential-providers" / "broken.stderr"
        ours = (node.directory / "kubelet.json", node.manifests, last_words)
        assert files_with_canary(node.directory, temporal.root, but=ours) == []
        in_clear = [one for folder in (node.directory, temporal.root) for one in files_with(IN_SPECS.encode(), folder)]
        assert {one for one in in_clear if one.name != "observed.json"} == {node.manifests / "hooked.json"}
        assert all(found_in(path.read_bytes()) for path in (ours[0], last_words)), "it is found where it is"
        assert str(last_words) in node.log("worker"), "the operator is told where the reason is"
        listed.clear()
    assert seen == set()
    assert told, "the processes told systemd that they are ready"
    assert not any(found_in(one) or IN_SPECS.encode() in one for one in told)
