"""Does a pod as large or odd as the API allows run, or wait with a reason, and is it removed cleanly, on real containerd?"""

from typing import Any

import pytest

from activities.files.mounts import mounts_below
from tests.node.kept_objects import put_object
from tests.node.operating import history
from tests.node.pod_story import log_lines, log_path
from tests.node.tempolet_node import TempoletNode, pod_manifest

MEBIBYTE = 1 << 20


def showing(name: str, command: str, *volumes: dict[str, Any], **container: Any) -> dict[str, Any]:
    """Build a pod that mounts each volume at `/<its name>`."""
    manifest = pod_manifest(name, command, volumes=list(volumes))
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    manifest["spec"]["containers"][0] |= {"volumeMounts": mounts} | container
    return manifest


def gone(node: TempoletNode, name: str) -> None:
    """Delete a pod, and check that no mount is left."""
    node.take_away(name)
    assert mounts_below(node.root_dir) == []


def test_a_config_map_of_a_mebibyte(node: TempoletNode) -> None:
    """A file from it is read completely; with one more byte it is refused, and the error names only the field."""
    put_object(node, "configmaps", "full", data={"big": "x" * MEBIBYTE})
    put_object(node, "configmaps", "over", data={"big": "x" * (MEBIBYTE + 1)})
    volume = {"name": "v", "configMap": {"name": "full"}}
    node.apply(showing("full", "wc -c </v/big; sleep 3600", volume))
    log = log_path(node, node.until_running("full"))
    node.until(lambda: log_lines(log) == [str(MEBIBYTE)], "its size")
    node.apply(showing("over", "sleep 3600", {"name": "v", "configMap": {"name": "over"}}))
    waiting = node.until_pod("over", lambda one: one.reason == "FailedMount")
    assert "data: Too long: may not be more than 1048576 bytes" in waiting.message
    assert "xxx" not in waiting.message
    node.remove("over")
    gone(node, "full")


@pytest.mark.parametrize("key", ["../../escaped", "/etc/escaped", "..data", "a/b"])
def test_a_key_that_is_a_path(node: TempoletNode, key: str) -> None:
    """As in the API's validation: the pod waits and names the field; nothing is written."""
    put_object(node, "secrets", "paths", stringData={key: "x"})
    node.apply(showing("paths", "sleep 3600", {"name": "v", "secret": {"secretName": "paths"}}))
    waiting = node.until_pod("paths", lambda one: one.reason == "FailedMount")
    assert f"stringData[{key}]: Invalid value" in waiting.message
    assert not list(node.root_dir.rglob("escaped"))
    gone(node, "paths")


LARGE = [
    pytest.param({"env": [{"name": f"A{one}", "value": "v" * 50} for one in range(10_000)]}, 0, id="10000-variables"),
    pytest.param({"env": [{"name": f"A{one}", "value": "v" * 10_000} for one in range(140)]}, 0, id="1400000-bytes"),
    pytest.param({}, 500, id="500-volumes"),
]


@pytest.mark.parametrize(("container", "count"), LARGE)
def test_a_pod_as_large_as_it_may_be(
    node: TempoletNode, request: pytest.FixtureRequest, container: dict[str, Any], count: int
) -> None:
    """It starts and is removed, and no task of its workflow is too large for Temporal."""
    name = f"large-{request.node.callspec.id}"
    volumes = [{"name": f"v{one}", "emptyDir": {}} for one in range(count)]
    node.apply(showing(name, "sleep 3600", *volumes, **container))
    snapshot = node.until_running(name)
    assert "failed" not in history(node, snapshot)
    gone(node, name)


@pytest.mark.parametrize(
    "mount",
    [
        pytest.param({"mountPath": "/a\nb c", "subPath": "d\ne\\040f"}, id="lines-and-blanks"),
        pytest.param({"mountPath": "/a:b,ro", "subPath": "c:d,rw"}, id="colons-and-commas"),
        pytest.param({"mountPath": "/ä", "subPath": "日本/ü"}, id="unicode"),
        pytest.param({"mountPath": "rel//x/", "subPath": "a//b/./c/"}, id="odd-slashes"),
    ],
)
def test_paths_that_are_odd(node: TempoletNode, mount: dict[str, Any]) -> None:
    """They are mounted exactly as written, and unmounted."""
    manifest = showing("odd", f"touch '/{mount['mountPath']}/here'; sleep 3600", {"name": "v", "emptyDir": {}})
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", **mount}]
    node.apply(manifest)
    snapshot = node.until_running("odd")
    volume = node.root_dir / "pods" / snapshot.uid / "volumes/kubernetes.io~empty-dir/v"
    node.until((volume / mount["subPath"] / "here").exists, "what the container made")
    gone(node, "odd")


def test_two_sources_of_which_one_is_in_the_others_way(node: TempoletNode) -> None:
    """A file and a folder with one name: the error names both paths, and is the same at each attempt."""
    put_object(node, "configmaps", "ways", data={"k": "1"})
    sources = [{"configMap": {"name": "ways", "items": [{"key": "k", "path": path}]}} for path in ("a", "a/b")]
    node.apply(showing("ways", "sleep 3600", {"name": "v", "projected": {"sources": sources}}))
    waiting = node.until_pod("ways", lambda one: one.reason == "FailedMount")
    assert waiting.message == ('MountVolume.SetUp failed for volume "v" : invalid path: a/b lies below a, a file')
    gone(node, "ways")
