"""A state file of the resource managers, written by the kubelet or given to it, on the node that the kubelet runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.cluster_node import condition, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from tests.node.tempolet_node import PATIENCE
from tests.waiting import wait_until

Json = dict[str, Any]


def created(plane: ControlPlane, pod: Json, *, bound: bool = True) -> Json:
    """Create a pod on the kubelet's node, or on none yet; returns it as the API has it."""
    pod["spec"] |= {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    pod["spec"] |= {"nodeName": NAME} if bound else {}
    made: Json = plane.api.create(pods_path(), pod)
    return made


def written_by_kubelet(
    node: KubeletNode, plane: ControlPlane, home: Path, keys: Mapping[str, Any], file: str, pod: Json
) -> tuple[Json, bytes]:
    """Run the kubelet with a pod; returns the pod, and the file that it leaves."""
    with node.running(home, keys):
        until_ready(plane, f"/api/v1/nodes/{NAME}")
        made = created(plane, pod)
        until_ready(plane, pods_path(name=made["metadata"]["name"]))
        return made, (node.root_dir(home) / file).read_bytes()


def kept_by_kubelet(
    node: KubeletNode, plane: ControlPlane, home: Path, keys: Mapping[str, Any], ours: Path, pod: Json
) -> bytes:
    """Run the kubelet on a file of ours until a pod is ready; returns what it has made of the file."""
    with node.running(home, keys, files={ours.name: ours.read_bytes()}):
        until_ready(plane, pods_path(name=pod["metadata"]["name"]))
        return (node.root_dir(home) / ours.name).read_bytes()


def assert_refused_alike(
    node: KubeletNode, home: Path, keys: Mapping[str, Any], ours: Path, refusal: BaseException
) -> None:
    """Check that the kubelet refuses a file in the words in which we have refused it, but for the path."""
    words = str(refusal).partition("could not restore")[2].partition("checkpoint file")[0]
    with node.running(home, keys, files={ours.name: ours.read_bytes()}):
        told = until_told(home / "state/log/kubelet.log", "could not restore")
    assert words.replace('"', '\\"') in told.replace('\\\\"', '\\"')


def until_ready(plane: ControlPlane, path: str) -> None:
    """Wait until a node or a pod is ready."""
    plane.api.until(path, lambda one: condition(one, "Ready") == "True", f"{path} is ready", PATIENCE)


def until_told(log: Path, words: str) -> str:
    """Wait until a log has these words; raises TimeoutError."""
    wait_until(lambda: log.exists() and words in log.read_text(), f"{log} says {words!r}")
    return log.read_text()


def until_gone(plane: ControlPlane) -> None:
    """Wait until the API has no pod of an earlier test."""
    path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NAME}"
    plane.api.until(path, lambda one: not one["items"], "no pod is left", PATIENCE)
