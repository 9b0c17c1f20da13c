"""Is an unexpected exception reported once, and an intended failure passed on unchanged?"""

import asyncio
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from activities.execution.unexpected import UnexpectedErrors

MEANT = ApplicationError("the runtime is away", type="RuntimeUnavailable")


class Raising(ActivityInboundInterceptor):
    """An activity."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name
        """Raise what the test says."""
        del input
        raise self.error


async def raised_for(error: BaseException) -> BaseException:
    """Return what comes out when an activity raises `error`."""
    chain = UnexpectedErrors().intercept_activity(Raising(error))
    with pytest.raises(BaseException) as came:  # noqa: PT011 -- whatever comes is looked at
        await chain.execute_activity(cast("ExecuteActivityInput", None))
    return came.value


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(MEANT, id="an-errors-own-reason"),
        pytest.param(CancelledError(), id="temporals-cancel"),
        pytest.param(asyncio.CancelledError(), id="asyncios-cancel"),
    ],
)
async def test_what_is_meant_passes(error: BaseException) -> None:
    """With its own retry policy."""
    assert await raised_for(error) is error


async def test_a_defect_is_not_retried() -> None:
    """The message asks the operator to report it."""
    came = await raised_for(KeyError("image"))
    assert isinstance(came, ApplicationError)
    assert (came.type, came.non_retryable) == ("UnexpectedError", True)
    assert "KeyError: 'image'" in came.message
