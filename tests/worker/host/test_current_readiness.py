"""Does the node's status show a readiness that the history does not have yet, and only that?"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from proto.temporal.pod import Lifecycle, PodKey
from tests.worker.poller.snapshots import snapshot
from worker.host.current_readiness import CurrentReadiness, with_readiness

BEFORE = "2026-11-23T08:00:00Z"
NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
POD = PodKey("default", "web", "u1")


def container(name: str = "web", *, ready: bool = True, started: bool = True, runs: bool = True) -> dict[str, Any]:
    """Return a container's status."""
    state = {"running": {"startedAt": BEFORE}} if runs else {"waiting": {"reason": "CrashLoopBackOff"}}
    return {"name": name, "containerID": f"containerd://{name}-0", "ready": ready, "started": started, "state": state}


def conditions(*, ready: bool, gate: str = "") -> list[dict[str, Any]]:
    """Return the conditions of a pod that runs."""
    unready = {"reason": "ContainersNotReady", "message": "containers with unready status: [web]"}
    found = [{"type": "lb", "status": gate, "lastTransitionTime": BEFORE}] if gate else []
    found += [{"type": one, "status": "True", "lastTransitionTime": BEFORE} for one in ("Initialized", "PodScheduled")]
    status: dict[str, Any] = {"status": str(ready), "lastTransitionTime": BEFORE, "observedGeneration": 3}
    found += [{"type": one, **status, **({} if ready else unready)} for one in ("Ready", "ContainersReady")]
    return found


def published(
    *containers: dict[str, Any], ready: bool = True, gate: str = "", init: list[dict[str, Any]] | None = None
) -> PodSnapshot:
    """Return what the workflow published."""
    spec: dict[str, Any] = {"containers": [{"name": one["name"]} for one in containers]}
    spec["readinessGates"] = [{"conditionType": "lb"}] * bool(gate)
    spec["initContainers"] = [{"name": one["name"], "restartPolicy": "Always"} for one in init or ()]
    status: dict[str, Any] = {"phase": "Running", "conditions": conditions(ready=ready, gate=gate)}
    status["containerStatuses"] = list(containers)
    status |= {"initContainerStatuses": init} if init else {}
    return replace(snapshot("u1"), ready=ready, status=status, pod={"spec": spec})


def ready_of(shown: PodSnapshot) -> tuple[Any, ...]:
    """Return what is shown: containers, the conditions Ready and ContainersReady, and the pod."""
    found = {one["type"]: one["status"] for one in shown.status["conditions"]}
    return (
        [one["ready"] for one in shown.status["containerStatuses"]],
        found["Ready"],
        found["ContainersReady"],
        shown.ready,
    )


@pytest.mark.parametrize(
    ("snapshot_", "result", "shown"),
    [
        pytest.param(published(container()), False, ([False], "False", "False", False), id="not-ready-any-more"),
        pytest.param(
            published(container(ready=False), ready=False), True, ([True], "True", "True", True), id="ready-again"
        ),
        pytest.param(
            published(container(ready=False), ready=False, gate="False"),
            True,
            ([True], "False", "True", False),
            id="a-readiness-gate-still-holds",
        ),
        pytest.param(
            published(container(ready=False), ready=False, gate="True"),
            True,
            ([True], "True", "True", True),
            id="a-readiness-gate-is-open",
        ),
        pytest.param(
            published(container(ready=False), container("db", ready=False), ready=False),
            True,
            ([True, False], "False", "False", False),
            id="another-container-is-not-ready",
        ),
        pytest.param(
            published(container(ready=False), ready=False, init=[container("proxy", ready=False)]),
            True,
            ([True], "False", "False", False),
            id="a-sidecar-is-not-ready",
        ),
        pytest.param(
            published(container(ready=False, started=False), ready=False),
            True,
            ([False], "False", "False", False),
            id="it-has-not-started",
        ),
        pytest.param(
            published(container(ready=False, runs=False), ready=False),
            True,
            ([False], "False", "False", False),
            id="it-does-not-run",
        ),
    ],
)
def test_what_a_result_changes(snapshot_: PodSnapshot, result: bool, shown: tuple[Any, ...]) -> None:
    """As in the kubelet's SetContainerReadiness (pkg/kubelet/status/status_manager_test.go TestSetContainerReadiness)."""
    assert ready_of(with_readiness(snapshot_, {"web-0": result}, {}, NOW)) == shown


@pytest.mark.parametrize(
    ("snapshot_", "shown"),
    [
        pytest.param(published(container(ready=False), ready=False), ([True], "True", "True", True), id="alone"),
        pytest.param(
            published(container(ready=False), ready=False, init=[container("proxy", ready=False)]),
            ([True], "False", "False", False),
            id="beside-a-sidecar-that-is-not-ready",
        ),
        pytest.param(
            published(container(ready=False), ready=False, init=[container("setup", ready=False, runs=False)]),
            ([True], "True", "True", True),
            id="after-an-init-container",
        ),
    ],
)
def test_a_snapshot_of_an_earlier_worker_has_no_spec(snapshot_: PodSnapshot, shown: tuple[Any, ...]) -> None:
    """On a standalone node; an init container that still runs is a sidecar."""
    assert ready_of(with_readiness(replace(snapshot_, pod={}), {"web-0": True}, {}, NOW)) == shown


def test_a_gate_that_is_not_known_any_more_stays_closed() -> None:
    """Until the workflow publishes the pod again."""
    closed = published(container(), ready=False, gate="False")
    closed.status["conditions"][-2] |= {"reason": "ReadinessGatesNotReady"}
    assert ready_of(with_readiness(replace(closed, pod={}), {"web-0": True}, {}, NOW))[1] == "False"


def test_a_condition_says_why_and_since_when() -> None:
    """In the kubelet's words; other conditions and fields stay."""
    before = published(container())
    after = with_readiness(before, {"web-0": False}, {"Ready": ("True", BEFORE)}, NOW)
    kept, changed = after.status["conditions"][:2], after.status["conditions"][2:]
    assert kept == before.status["conditions"][:2]
    assert changed == [
        {
            "type": one,
            "status": "False",
            "reason": "ContainersNotReady",
            "message": "containers with unready status: [web]",
            "lastTransitionTime": "2026-11-23T09:00:00Z",
            "observedGeneration": 3,
        }
        for one in ("Ready", "ContainersReady")
    ]
    assert before.status["containerStatuses"] == [container()], "a published status is never changed"


@pytest.mark.parametrize(
    "over", [pytest.param({"phase": "Failed"}, id="failed"), pytest.param({"phase": "Succeeded"}, id="succeeded")]
)
def test_a_pod_that_has_ended_stays_as_it_is(over: dict[str, Any]) -> None:
    """A late probe changes nothing."""
    ended = published(container())
    ended = replace(ended, status=ended.status | over)
    assert with_readiness(ended, {"web-0": False}, {}, NOW) is ended


class Readers:
    """What the readers of snapshots got."""

    def __init__(self, *known: PodSnapshot) -> None:
        self.got: list[PodSnapshot] = []
        self.readiness = CurrentReadiness(known)
        self.readiness.pass_on(self.got.append)

    def probed(self, *, ready: bool, signalled: bool = False) -> None:
        """Tell a result."""
        self.readiness.probed(POD, "web-0", ready=ready, signalled=signalled)

    def ready(self) -> list[bool]:
        """What they got, in order."""
        return [one.ready for one in self.got]


def test_each_change_is_published_once() -> None:
    """At once, and again only when it changes; the workflow's own snapshots carry it until they have it themselves."""
    readers = Readers()
    readers.readiness.publish(published(container()))
    readers.probed(ready=True)
    readers.probed(ready=False)
    readers.probed(ready=False)
    assert readers.ready() == [True, False]
    readers.readiness.publish(replace(published(container()), restarts=1))
    assert (readers.got[-1].ready, readers.got[-1].restarts) == (False, 1)
    readers.probed(ready=True)
    readers.readiness.publish(published(container()))
    assert readers.ready() == [True, False, False, True, True]


def test_what_is_signalled_at_once_is_left_to_the_workflow() -> None:
    """Unless an earlier result was shown that the workflow does not have: then it must not be shown any longer."""
    readers = Readers()
    readers.readiness.publish(published(container()))
    readers.probed(ready=False, signalled=True)
    assert readers.ready() == [True]
    readers.probed(ready=False)
    readers.probed(ready=True, signalled=True)
    readers.readiness.publish(published(container()))
    assert readers.ready() == [True, False, True, True]


def test_a_result_that_the_workflow_has_is_forgotten() -> None:
    """So the workflow's later changes are shown."""
    readers = Readers()
    readers.readiness.publish(published(container()))
    readers.probed(ready=False)
    readers.readiness.publish(published(container(ready=False), ready=False))
    readers.readiness.publish(published(container()))
    assert readers.ready() == [True, False, False, True]


def test_times_never_go_back() -> None:
    """A condition keeps the time that was shown, also if the workflow knows only an older one."""
    readers = Readers()
    readers.readiness.publish(published(container()))
    for ready in (False, True):
        readers.probed(ready=ready)
    readers.readiness.publish(published(container()))
    times = [one.status["conditions"][-1]["lastTransitionTime"] for one in readers.got]
    assert times == sorted(times)
    assert times[-1] == times[-2] > BEFORE


def test_a_new_instance_and_an_ended_pod_begin_anew() -> None:
    """A result is about one instance of a container."""
    readers = Readers(published(container()))
    readers.probed(ready=False)
    restarted = published(container() | {"containerID": "containerd://web-1"})
    readers.readiness.publish(restarted)
    assert readers.ready() == [False, True]
    over = replace(restarted, deleting=True, lifecycle=Lifecycle.TERMINATED)
    readers.readiness.publish(over)
    assert readers.got[-1] is over
    readers.probed(ready=False)
    assert len(readers.got) == 3
