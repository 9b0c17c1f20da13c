"""Which differences between runtime and snapshots does a listing find, and to whom do they belong?"""

import pytest

from proto.cri.ownership import HOOK_LABEL
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import RuntimeChanged
from tests.worker.poller.runtime.fake_runtime import container, sandbox
from tests.worker.poller.snapshots import snapshot
from worker.poller.runtime.known_pods import unknown_part
from worker.poller.runtime.relist import differences, our_pods

WEB = "pod/n/default/web/u1"


@pytest.mark.parametrize(
    ("known", "ready", "listed", "exited", "lost"),
    [
        pytest.param({"c": "c1 running"}, True, [("c1", True, 0)], (), False, id="a-running-pod-is-no-news"),
        pytest.param({"c": "c1 running"}, True, [("c1", False, 0)], ("c1",), False, id="an-end-is"),
        pytest.param({"c": "c1 exited"}, True, [("c1", False, 0)], (), False, id="a-known-end-is-not"),
        pytest.param({"c": "c1 running"}, True, [], ("c1",), False, id="a-container-that-vanished-ended"),
        pytest.param({"c": "c1 exited"}, True, [], (), False, id="one-that-was-removed-after-its-end-did-not"),
        pytest.param(
            {"c": "c2 running 1"}, True, [("c1", False, 0), ("c2", True, 1)], (), False, id="an-older-instance"
        ),
        pytest.param(
            {"c": "c1 running"}, True, [("c1", True, 0), ("c2", False, 1)], ("c2",), False, id="a-newer-one-ended"
        ),
        pytest.param({}, True, [("c1", True, 0)], (), False, id="a-start-under-way-is-our-own-doing"),
        pytest.param({}, True, [("c1", False, 0)], ("c1",), False, id="an-end-before-the-first-snapshot-of-it"),
        pytest.param({"c": "c1 running"}, False, [("c1", True, 0)], (), True, id="a-lost-sandbox"),
    ],
)
def test_only_unknown_ends_are_news(
    known: dict[str, str], ready: bool, listed: list[tuple[str, bool, int]], exited: tuple[str, ...], lost: bool
) -> None:
    """Each row is one pod: its snapshot, and what the runtime lists."""
    containers = [container(one, "s1", running=running, attempt=attempt) for one, running, attempt in listed]
    pods = our_pods("n", [sandbox("u1", "s1", ready=ready)], containers)
    found = differences(pods, {"u1": snapshot("u1", known)}, "relist")
    expected = {WEB: RuntimeChanged("relist", exited=exited, sandbox_lost=lost)} if exited or lost else {}
    assert found == expected


def test_a_sandbox_that_vanished_is_lost() -> None:
    """Somebody else removed the whole pod."""
    found = differences({}, {"u1": snapshot("u1", {"c": "c1 running"})}, "resync")
    assert found == {WEB: RuntimeChanged("resync", exited=("c1",), sandbox_lost=True)}


def test_a_pod_without_snapshot_is_found_by_its_labels() -> None:
    """The worker has not written one yet, or it is gone."""
    pods = our_pods("n", [sandbox("u1", "s1")], [container("c1", "s1", running=False)])
    assert differences(pods, {}, "relist") == {WEB: RuntimeChanged("relist", exited=("c1",))}


def test_what_runs_a_hook_is_no_container_of_the_pod() -> None:
    """Its end is no news: the activity that made it waits for it."""
    helper = container("h1", "s1", running=False)
    helper.labels.clear()
    helper.labels[HOOK_LABEL] = "preStart"
    pods = our_pods("n", [sandbox("u1", "s1")], [helper])
    assert differences(pods, {"u1": snapshot("u1")}, "relist") == {}


def test_what_does_not_carry_our_mark_is_another_nodes() -> None:
    """A shared containerd may hold a kubelet's pods, or another tempolet's."""
    sandboxes = [sandbox("u1", "s1"), sandbox("u2", "s2", node=""), sandbox("u3", "s3", node="other")]
    sandboxes.append(cri.PodSandbox(id="s4"))
    pods = our_pods("n", sandboxes, [container("c1", "s1"), container("c2", "s2"), container("c9", "gone")])
    assert [(pod.uid, pod.workflow_id, [one.id for one in pod.containers]) for pod in pods.values()] == [
        ("u1", WEB, ["c1"])
    ]


def test_the_pods_of_a_kubelet_that_was_here_are_ours() -> None:
    """Their folders are in --root-dir. So an end of one that was taken over is news, and one that nobody wants is orphaned."""
    sandboxes = [sandbox("u1", "s1", node=""), sandbox("u2", "s2", node=""), sandbox("u3", "s3", node="other")]
    pods = our_pods("n", sandboxes, [container("c1", "s1")], ("u1", "u3"))
    assert list(pods) == ["u1"]
    assert differences(pods, {"u1": snapshot("u1", {"c": "c1 running"})}, "relist") == {}


@pytest.mark.parametrize(
    ("hint", "known", "left"),
    [
        pytest.param(RuntimeChanged("restart"), snapshot("u1"), RuntimeChanged("restart"), id="all-stays-all"),
        pytest.param(
            RuntimeChanged("event", exited=("c1",)), snapshot("u1", {"c": "c1 exited"}), None, id="a-known-end"
        ),
        pytest.param(
            RuntimeChanged("event", exited=("c1", "c2")),
            snapshot("u1", {"c": "c1 exited", "d": "c2 running"}),
            RuntimeChanged("event", exited=("c2",)),
            id="one-of-two",
        ),
        pytest.param(
            RuntimeChanged("event", sandbox_lost=True),
            snapshot("u1"),
            RuntimeChanged("event", sandbox_lost=True),
            id="a-loss-not-yet-known",
        ),
    ],
)
def test_what_the_pod_knows_by_now_is_left_out(
    hint: RuntimeChanged, known: PodSnapshot, left: RuntimeChanged | None
) -> None:
    """The snapshot is read again before a signal is sent."""
    assert unknown_part(hint, known) == left
