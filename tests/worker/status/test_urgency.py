"""Which statuses are written at once, and which may wait for the next?"""

from typing import Any

import pytest

from worker.status.urgency import is_urgent


def status(
    phase: str = "Pending", *, ready: str = "False", state: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a status with one container."""
    state = {"waiting": {"reason": "ContainerCreating"}} if state is None else state
    container = {"name": "web", "ready": False, "started": False, "restartCount": 0, "state": state, **more}
    return {"phase": phase, "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [container]}


BOUND: dict[str, Any] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
RUNNING: dict[str, Any] = {"running": {}}


@pytest.mark.parametrize(
    ("api", "ours", "awaited"),
    [
        pytest.param(BOUND, status(), False, id="it-is-on-its-way"),
        pytest.param({}, status(), False, id="nothing-was-said-yet"),
        pytest.param(status(), {**status(), "podIP": "10.0.0.1"}, False, id="it-has-an-address"),
        pytest.param(status(), status("Running", state=RUNNING), True, id="it-runs"),
        pytest.param(status("Running"), status("Running", ready="True"), True, id="it-is-ready"),
        pytest.param(status("Running", ready="True"), status("Running"), True, id="it-is-not-ready-any-more"),
        pytest.param(
            status("Running", state=RUNNING),
            status("Running", state={"terminated": {}}),
            True,
            id="a-container-has-ended",
        ),
        pytest.param(status(), status(state={"waiting": {"reason": "ErrImagePull"}}), True, id="something-is-wrong"),
        pytest.param(
            status("Running", state=RUNNING, restartCount=1),
            status("Running", state=RUNNING, restartCount=2),
            True,
            id="it-was-started-again",
        ),
        pytest.param(status("Running"), status("Failed"), True, id="it-has-failed"),
    ],
)
def test_haste(api: dict[str, Any], ours: dict[str, Any], awaited: bool) -> None:
    """Somebody waits for each of these, or nobody does."""
    assert is_urgent(api, ours) is awaited
