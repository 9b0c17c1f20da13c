"""Does a slow machine have more time for its workflow tasks, before Temporal is away, too?"""

from datetime import timedelta

import pytest

from worker.delivery.task_timeouts import may_be_due, taken_within, task_timeout


@pytest.mark.parametrize(
    ("start", "timeout"),
    [
        pytest.param(0.0, 3, id="never-shorter"),
        pytest.param(1.2, 3, id="a-server"),
        pytest.param(6.5, 6.5, id="a-small-board"),
        pytest.param(40.0, 30, id="an-emulated-machine"),
    ],
)
def test_the_timeout_is_as_long_as_a_start(start: float, timeout: float) -> None:
    """From 3 to 30 seconds."""
    assert task_timeout(start).total_seconds() == timeout


def test_a_worker_that_is_gone_costs_a_second() -> None:
    """Ten times as much on the slowest machine, whose worker takes more than a second to take a task."""
    assert taken_within(task_timeout(1.2)) == timedelta(seconds=1)
    assert taken_within(task_timeout(40.0)) == timedelta(seconds=10)


def test_a_task_that_takes_its_time_is_no_sign_that_temporal_is_away() -> None:
    """The setting is for a machine of the usual speed."""
    configured = timedelta(seconds=5)
    assert may_be_due(configured, task_timeout(1.2)) == configured
    assert may_be_due(configured, task_timeout(40.0)) == timedelta(seconds=32)
