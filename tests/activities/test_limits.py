"""Is every runtime call over before Temporal takes its activity for lost?"""

from datetime import timedelta

import pytest

from activities.clients.runtime import DEADLINE_SECONDS, READ_SECONDS, STOP_MARGIN_SECONDS
from proto.temporal import requests
from workflows.calls import CALLS

READ = READ_SECONDS


@pytest.mark.parametrize(
    ("asked", "calls"),
    [
        pytest.param(requests.RunPodSandbox, (READ, DEADLINE_SECONDS["RunPodSandbox"], READ), id="run"),
        pytest.param(requests.StopPodSandbox, (DEADLINE_SECONDS["StopPodSandbox"],), id="stop-sandbox"),
        pytest.param(requests.RemovePodSandbox, (DEADLINE_SECONDS["RemovePodSandbox"],), id="remove-sandbox"),
        pytest.param(requests.PullImage, (READ, DEADLINE_SECONDS["PullImage"], READ), id="pull"),
        pytest.param(
            requests.StartContainer,
            (READ, DEADLINE_SECONDS["CreateContainer"], DEADLINE_SECONDS["StartContainer"], READ),
            id="start",
        ),
        pytest.param(requests.StopContainer, (STOP_MARGIN_SECONDS, READ), id="stop-beyond-its-grace"),
        pytest.param(requests.RemoveContainer, (DEADLINE_SECONDS["RemoveContainer"],), id="remove-container"),
        pytest.param(requests.ReadPodRuntime, (READ, READ), id="read"),
    ],
)
def test_deadlines_fit_into_the_activitys_limit(asked: type, calls: tuple[float, ...]) -> None:
    """So the activity, and not Temporal, says which call was too slow."""
    assert timedelta(seconds=sum(calls)) < CALLS[asked].within
