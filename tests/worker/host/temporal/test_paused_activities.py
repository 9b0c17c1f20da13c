"""Is a paused activity told, and a paused probe ended only if the instance that runs started after the pause?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import PROBE_CONTAINER, START_CONTAINER
from tests.worker.poller.snapshots import snapshot
from worker.host.temporal.paused_activities import is_outdated, told

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PAUSED = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED
REQUESTED = PendingActivityState.PENDING_ACTIVITY_STATE_PAUSE_REQUESTED


def pending(
    kind: str = PROBE_CONTAINER, activity_id: str = "probe/web", state: PendingActivityState.ValueType = PAUSED
) -> PendingActivityInfo:
    """Build an activity that was paused at noon."""
    found = PendingActivityInfo(activity_id=activity_id, state=state, paused=True)
    found.activity_type.name = kind
    found.pause_info.pause_time.FromDatetime(NOON)
    found.pause_info.manual.identity, found.pause_info.manual.reason = "joe", "night shift"
    return found


def running(since: datetime | None, *, field: str = "containerStatuses") -> PodSnapshot:
    """Build a pod whose container web runs since then, or does not run."""
    state = {"running": {"startedAt": since.isoformat()}} if since else {"waiting": {"reason": "CrashLoopBackOff"}}
    return replace(snapshot("u"), status={field: [{"name": "web", "state": state}]})


LATER = NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("activity", "pod", "outdated"),
    [
        pytest.param(pending(), running(LATER), True, id="another-instance-runs"),
        pytest.param(pending(), running(LATER, field="initContainerStatuses"), True, id="another-sidecar-runs"),
        pytest.param(pending(), running(NOON - timedelta(hours=1)), False, id="the-instance-it-was-paused-for"),
        pytest.param(pending(), running(None), False, id="none-runs"),
        pytest.param(pending(activity_id="probe/other"), running(LATER), False, id="of-another-container"),
        pytest.param(pending(START_CONTAINER), running(LATER), False, id="no-probe"),
        pytest.param(pending(state=REQUESTED), running(LATER), False, id="its-attempt-still-works"),
        pytest.param(pending(), None, False, id="no-snapshot"),
        pytest.param(pending(), replace(snapshot("u"), status={}), False, id="no-status"),
    ],
)
def test_which_paused_probe_is_ended(activity: PendingActivityInfo, pod: PodSnapshot | None, *, outdated: bool) -> None:
    """A pause of a container that runs is the operator's wish."""
    assert is_outdated(activity, pod) is outdated


@pytest.mark.parametrize(
    ("activity", "follows"),
    [
        pytest.param(pending(), "readiness and liveness stay as they are", id="a-probe"),
        pytest.param(pending(START_CONTAINER, "container/web"), "what needs it waits", id="another"),
        pytest.param(pending(state=REQUESTED), "it works on until its attempt ends", id="one-that-works"),
    ],
)
def test_what_is_told(activity: PendingActivityInfo, follows: str) -> None:
    """Who paused it, when and why, what follows, and what continues it."""
    said = told("pod/n/default/web/u", activity)
    assert said.pod == "default/web"
    assert f"is paused by joe at 2026-11-22T12:00:00+00:00 (night shift): {follows}; " in said.message
    assert (
        f"temporal activity unpause --workflow-id pod/n/default/web/u --activity-id {activity.activity_id}"
        in said.message
    )
