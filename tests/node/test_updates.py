"""Is an edit under the same uid taken over in place on a real containerd, and the pod replaced only where it must be?"""

import copy
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import ROOT, TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, containerd: Containerd, temporal: TemporalServer
) -> Iterator[TempoletNode]:
    """Run one node for all edits of this file."""
    with TempoletNode(tmp_path_factory.mktemp("updates"), containerd, temporal) as made:
        yield made


def manifest_of(name: str, command: str = "exec sleep 3600", **spec: Any) -> dict[str, Any]:
    """Write a manifest with a uid of its own."""
    manifest = pod_manifest(name, command, **spec)
    manifest["metadata"]["uid"] = f"uid-of-{name}"
    return manifest


def edited(manifest: dict[str, Any], *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Change fields of a manifest."""
    changed = copy.deepcopy(manifest)
    changed["metadata"] |= metadata or {}
    changed["spec"] |= spec
    return changed


def command(node: TempoletNode, *words: str) -> str:
    """Run a command of tempolet's on this node and answer what it says."""
    place = ["--root-dir", node.root_dir, "--hostname-override", node.name]
    files = ["--tempolet-config", node.directory / "tempolet.json"]
    line = [sys.executable, "-m", "worker.cli", *words, *files, *place]
    return subprocess.run([*map(str, line)], capture_output=True, text=True, cwd=ROOT, check=True).stdout


def story(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Read what `tempolet history` tells of a pod."""
    return command(node, "history", f"{snapshot.namespace}/{snapshot.name}")


def test_labels_change_while_the_same_process_runs_on(node: TempoletNode) -> None:
    """Its generation is told once they are taken over."""
    manifest = manifest_of("labels")
    node.apply(manifest)
    first = node.until_running("labels")
    pid = container_pid(node.containerd, first.containers["main"].container_id)
    node.apply(edited(manifest, metadata={"labels": {"app": "two"}, "generation": 2}))
    after = node.until_pod("labels", lambda one: one.status.get("observedGeneration") == 2, "the edit taken over")
    assert (after.sandbox_id, after.restarts, after.ready) == (first.sandbox_id, 0, True)
    assert container_pid(node.containerd, after.containers["main"].container_id) == pid
    assert "manifest changed: labels app" in story(node, after)


def test_a_deadline_that_is_set_later_ends_the_pod_where_it_runs(node: TempoletNode) -> None:
    """It counts from the pod's start, so one that is over acts at once."""
    manifest = manifest_of("deadline", activeDeadlineSeconds=3600)
    node.apply(manifest)
    first = node.until_running("deadline")
    node.apply(edited(manifest, activeDeadlineSeconds=1))
    ended = node.until_pod("deadline", lambda one: one.lifecycle == "terminated", "ended")
    assert (ended.reason, ended.phase, ended.sandbox_id) == ("DeadlineExceeded", "Failed", first.sandbox_id)
    assert "manifest changed: activeDeadlineSeconds from 3600 to 1" in story(node, ended)


def test_what_kubernetes_cannot_change_in_place_replaces_the_pod(node: TempoletNode) -> None:
    """The same uid begins anew, with the new manifest; the story says for what."""
    manifest = manifest_of("replaced", terminationGracePeriodSeconds=1)
    node.apply(manifest)
    first = node.until_running("replaced")
    node.apply(edited(manifest, terminationGracePeriodSeconds=2))
    again = node.until_pod("replaced", lambda one: one.ready and one.sandbox_id != first.sandbox_id, "the other pod")
    assert again.uid == first.uid
    told = story(node, again)
    assert "the pod is replaced, for terminationGracePeriodSeconds from 1 to 2 can't be changed in place" in told


def test_a_bad_edit_leaves_the_pod_as_it_runs(node: TempoletNode) -> None:
    """`tempolet pods` tells what is wrong with it; the next good one is taken over."""
    manifest = manifest_of("bad")
    node.apply(manifest)
    first = node.until_running("bad")
    node.apply(edited(manifest, activeDeadlineSeconds=0))
    node.until(lambda: "spec.activeDeadlineSeconds" in command(node, "pods"), "the refusal")
    node.apply(edited(manifest, metadata={"labels": {"app": "good"}, "generation": 2}))
    after = node.until_pod("bad", lambda one: one.status.get("observedGeneration") == 2, "the good edit")
    assert (after.sandbox_id, after.restarts) == (first.sandbox_id, 0)
