"""Does every runtime call end before Temporal times out its activity?"""

from datetime import timedelta

import pytest

from activities.clients.runtime import PULL_SECONDS, READ_SECONDS, REQUEST_SECONDS, SANDBOX_SHARE, STOP_MARGIN_SECONDS
from proto.temporal.activities import requests
from workflows.decide.actions import ACTIONS

READ = READ_SECONDS


@pytest.mark.parametrize(
    ("asked", "calls"),
    [
        pytest.param(requests.RunPodSandbox, (READ, SANDBOX_SHARE * REQUEST_SECONDS, READ), id="run"),
        pytest.param(requests.StopPodSandbox, (REQUEST_SECONDS,), id="stop-sandbox"),
        pytest.param(requests.RemovePodSandbox, (REQUEST_SECONDS,), id="remove-sandbox"),
        pytest.param(requests.PullImage, (READ, PULL_SECONDS, READ), id="pull"),
        pytest.param(
            requests.StartContainer,
            (READ, REQUEST_SECONDS, REQUEST_SECONDS, READ),
            id="start",
        ),
        pytest.param(requests.StopContainer, (STOP_MARGIN_SECONDS, READ), id="stop-beyond-its-grace"),
        pytest.param(requests.RemoveContainer, (REQUEST_SECONDS,), id="remove-container"),
        pytest.param(requests.ReadPodRuntime, (READ, READ), id="read"),
    ],
)
def test_deadlines_fit_into_the_activitys_limit(asked: type, calls: tuple[float, ...]) -> None:
    """So the activity, and not Temporal, reports which call was too slow."""
    assert timedelta(seconds=sum(calls)) < ACTIONS[asked].within
