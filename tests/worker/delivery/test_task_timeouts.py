"""Does a slow machine have more time for its workflow tasks?"""

import pytest

from worker.delivery.task_timeouts import task_timeout


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
