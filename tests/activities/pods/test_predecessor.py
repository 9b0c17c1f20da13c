"""Which pod of the same name goes first?"""

import pytest

from activities.pods.predecessor import older_snapshot, other_uid
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import PodKey

OURS = PodKey("prod", "web", "new")


def snapshot(uid: str, started_at: str, *, name: str = "web", lifecycle: str = "sync") -> PodSnapshot:
    """Return what the node's cache holds of a pod."""
    return PodSnapshot(
        workflow_id="",
        node="n",
        namespace="prod",
        name=name,
        uid=uid,
        source="file",
        path="",
        lifecycle=lifecycle,
        started_at=started_at,
    )


NOON, LATER = "2026-11-21T12:00:00Z", "2026-11-21T12:00:01.5+00:00"


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        pytest.param([], None, id="nobody"),
        pytest.param([snapshot("new", LATER)], None, id="only-ourselves"),
        pytest.param([snapshot("old", NOON), snapshot("new", LATER)], "old", id="who-started-before-us"),
        pytest.param([snapshot("old", NOON)], "old", id="before-we-wrote-anything"),
        pytest.param([snapshot("newer", LATER), snapshot("new", NOON)], None, id="who-started-after-us-waits-itself"),
        pytest.param([snapshot("old", "")], None, id="who-has-not-started-waits-itself"),
        pytest.param([snapshot("old", NOON, name="db")], None, id="another-name"),
        pytest.param([snapshot("old", NOON, lifecycle="terminating")], "old", id="on-its-way-out"),
        pytest.param([snapshot("old", NOON, lifecycle="terminated")], None, id="ended"),
        pytest.param([snapshot("old", NOON), snapshot("new", NOON)], None, id="two-of-one-moment-do-not-wait-for-ever"),
    ],
)
def test_snapshots(snapshots: list[PodSnapshot], expected: str | None) -> None:
    """Two pods never wait for each other."""
    assert older_snapshot(OURS, snapshots) == expected


def test_what_the_runtime_holds_counts_whoever_started_first() -> None:
    """A sandbox or a lone container of another uid."""
    ours = cri.PodSandbox(labels={"io.kubernetes.pod.uid": "new"})
    theirs = cri.Container(labels={"io.kubernetes.pod.uid": "old"})
    stranger = cri.PodSandbox(labels={})
    assert other_uid(OURS, [ours, stranger], []) is None
    assert other_uid(OURS, [ours], [theirs]) == "old"
