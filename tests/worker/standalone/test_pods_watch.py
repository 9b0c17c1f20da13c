"""Does `up` count only pods that run, and does `down` know how long to wait?"""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proto.pod_snapshot import ContainerSnapshot, PodSnapshot, snapshot_path
from proto.refusals import BEING_ADMITTED, Refusal, write_refusals
from worker.standalone.cri_client import CriClient
from worker.standalone.pods_watch import DEFAULT_GRACE, Manifest, Pods, longest_grace, look, pods_left
from workflows.decide.devices.requests import NOT_REGISTERED


@dataclass
class FakeRuntime:
    """Answers the two questions that the watch asks of CRI."""

    alive: tuple[str, ...] = ()
    sandbox_uids: tuple[str, ...] = ()
    runtime: Any = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = self

    def ListContainers(self, _request: object, timeout: float) -> Any:  # noqa: N802 - CRI's name
        """List the running containers."""
        assert timeout > 0
        return SimpleNamespace(containers=[SimpleNamespace(id=one) for one in self.alive])

    def sandboxes(self) -> list[Any]:
        """List the sandboxes."""
        return [
            SimpleNamespace(
                id=f"s-{uid}",
                labels={"io.kubernetes.pod.uid": uid},
                metadata=SimpleNamespace(namespace="default", name=f"pod-{uid}"),
            )
            for uid in self.sandbox_uids
        ]


COUNTED = ("running", "finished", "waiting", "failing", "refused")


def waits(reason: str) -> dict[str, Any]:
    """Return the status of a container that waits, after it ended as Error."""
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    return {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}, "lastState": ended}]}


def write(root: Path, uid: str = "u1", **changes: Any) -> None:
    """Write the snapshot of a pod that runs."""
    values: dict[str, Any] = {
        "workflow_id": "w",
        "node": "n1",
        "namespace": "default",
        "name": "web-n1",
        "uid": uid,
        "source": "file",
        "path": "/m/web.yaml",
        "lifecycle": "sync",
        "phase": "Running",
        "ready": True,
        "containers": {"main": ContainerSnapshot("c1", "CONTAINER_RUNNING")},
    }
    path = snapshot_path(root, uid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PodSnapshot(**(values | changes)).to_json())


def seen(root: Path, *alive: str, old: tuple[str, ...] = ()) -> Pods:
    """Look at the one manifest."""
    return look(root, [Manifest(Path("/m/web.yaml"), old)], cast("CriClient", FakeRuntime(alive)))


@pytest.mark.parametrize(
    ("changes", "alive", "counted"),
    [
        pytest.param({}, ("c1",), "running", id="ready-and-alive"),
        pytest.param({}, (), "waiting", id="the-snapshot-is-from-before-a-reboot"),
        pytest.param({"ready": False}, ("c1",), "waiting", id="not-ready"),
        pytest.param({"phase": "Pending"}, ("c1",), "waiting", id="pending"),
        pytest.param({"containers": {}}, ("c1",), "waiting", id="no-container-yet"),
        pytest.param({"phase": "Succeeded"}, (), "finished", id="succeeded"),
        pytest.param({"phase": "Failed"}, (), "finished", id="failed"),
        pytest.param({"deleting": True}, ("c1",), "waiting", id="on-its-way-out"),
        pytest.param({"path": "/m/other.yaml"}, ("c1",), "waiting", id="another-manifest"),
        pytest.param({"ready": False, "reason": "ContainerCreating"}, (), "waiting", id="on-its-ordinary-way"),
        pytest.param({"ready": False, "reason": "PredecessorPresent"}, (), "waiting", id="its-predecessor-goes"),
        pytest.param({"ready": False, "reason": "FailedMount"}, (), "failing", id="a-volume-that-does-not-mount"),
        pytest.param({"ready": False, "reason": "ErrImagePull"}, (), "failing", id="an-image-that-is-nowhere"),
        pytest.param(
            {"ready": False, "reason": "CrashLoopBackOff", "status": waits("CrashLoopBackOff")},
            *((), "failing"),
            id="a-crash-loop",
        ),
        pytest.param(
            {"ready": False, "reason": "Error", "status": waits("ContainerCreating")},
            *((), "waiting"),
            id="it-ended-once-and-is-started-again",
        ),
        pytest.param({"reason": "Error", "status": waits("Error")}, ("c1",), "running", id="it-ended-once-and-runs"),
    ],
)
def test_what_a_pod_counts_as(tmp_path: Path, changes: dict[str, Any], alive: tuple[str, ...], counted: str) -> None:
    """Each pod counts once."""
    write(tmp_path, **changes)
    pods = seen(tmp_path, *alive)
    assert {name: len(getattr(pods, name)) for name in COUNTED} == {name: int(name == counted) for name in COUNTED}


def test_an_edited_manifest_waits_for_its_new_pod(tmp_path: Path) -> None:
    """The pod of the version before does not count, although it still runs."""
    write(tmp_path)
    assert list(seen(tmp_path, "c1", old=("u1",)).waiting.values()) == ["web.yaml has no pod yet"]


def test_a_refusal_is_told_with_its_reason(tmp_path: Path) -> None:
    """Whatever else is known of the file."""
    write(tmp_path)
    write_refusals(tmp_path, [Refusal("/m/web.yaml", "Invalid", "spec.x: not supported yet", "now")])
    assert seen(tmp_path, "c1").refused == {Path("/m/web.yaml"): "web.yaml: spec.x: not supported yet"}


def test_a_pod_that_is_being_admitted_is_waited_for(tmp_path: Path) -> None:
    """One that waits for a device plugin is not: nobody knows whether one registers."""
    why = "its hardware is being chosen"
    write_refusals(tmp_path, [Refusal("/m/web.yaml", BEING_ADMITTED, why, "now", waits=True)])
    assert seen(tmp_path).waiting == {Path("/m/web.yaml"): f"web.yaml: {why}"}
    write_refusals(tmp_path, [Refusal("/m/web.yaml", NOT_REGISTERED, why, "now", waits=True)])
    assert seen(tmp_path).refused == {Path("/m/web.yaml"): f"web.yaml: {why}"}


@pytest.mark.parametrize(
    ("shared", "left"),
    [
        pytest.param(False, ["default/pod-u2", "default/pod-u3", "default/web-n1"], id="all-of-a-private-runtime"),
        pytest.param(True, ["default/pod-u2", "default/web-n1"], id="only-ours-of-a-shared-one"),
    ],
)
def test_what_is_left_of_the_pods(tmp_path: Path, shared: bool, left: list[str]) -> None:
    """A snapshot, or a sandbox: u2 has a folder on this node, u3 is foreign."""
    write(tmp_path)
    (tmp_path / "pods" / "u2").mkdir()
    runtime = cast("CriClient", FakeRuntime(sandbox_uids=("u1", "u2", "u3")))
    assert pods_left(tmp_path, runtime, shared=shared) == left


@pytest.mark.parametrize(
    ("texts", "seconds"),
    [
        pytest.param([], 0, id="no-pods"),
        pytest.param(["spec: {terminationGracePeriodSeconds: 5}"], 5, id="as-said"),
        pytest.param(["spec: {containers: []}"], DEFAULT_GRACE, id="default"),
        pytest.param(["spec: {terminationGracePeriodSeconds: 90}", "spec: {}"], 90, id="the-longest"),
        pytest.param(["spec: ["], DEFAULT_GRACE, id="not-yaml"),
        pytest.param(["just words"], DEFAULT_GRACE, id="not-a-pod"),
        pytest.param(["spec: {terminationGracePeriodSeconds: soon}"], DEFAULT_GRACE, id="not-a-number"),
    ],
)
def test_how_long_to_wait(tmp_path: Path, texts: list[str], seconds: int) -> None:
    """The longest grace of all manifests."""
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text)
    assert longest_grace(files) == seconds
