"""Does a container that has ended start again?"""

import pytest

from proto.temporal.pod import Exit
from workflows.decide.restart import RestartPolicy, init_starts_again, starts_again

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER


@pytest.mark.parametrize(
    ("policy", "exit_code", "regular", "init"),
    [
        pytest.param(ALWAYS, 0, True, False, id="always-starts-a-success-again-but-an-init-container-is-done"),
        pytest.param(ALWAYS, 1, True, True, id="always-starts-a-failure-again"),
        pytest.param(ON_FAILURE, 0, False, False, id="on-failure-leaves-a-success"),
        pytest.param(ON_FAILURE, 1, True, True, id="on-failure-starts-a-failure-again"),
        pytest.param(ON_FAILURE, 137, True, True, id="on-failure-starts-a-killed-one-again"),
        pytest.param(NEVER, 0, False, False, id="never-leaves-a-success"),
        pytest.param(NEVER, 1, False, False, id="never-leaves-a-failure"),
    ],
)
def test_starts_again(policy: RestartPolicy, exit_code: int, regular: bool, init: bool) -> None:
    """By policy and exit code, for regular and for init containers."""
    ended = Exit("web-0", exit_code, "Error")
    assert (starts_again(policy, ended), init_starts_again(policy, ended)) == (regular, init)
