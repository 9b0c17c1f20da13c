"""Turns unexpected exceptions of activities into failures that are not retried.

Temporal retries whatever an activity raises, ours without end, so that a runtime may be away for hours. A bug would be
retried for ever with nothing to see but a pending activity. Instead it becomes a failure with the reason
`UnexpectedError`, which the workflow shows and backs off from. The worker installs this interceptor.
"""

from typing import Any

from temporalio.exceptions import ApplicationError, FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.errors import non_retryable_failure
from activities.files.pod_paths import UnsafeName
from proto.temporal.failure_types import INVALID_POD_NAME, UNEXPECTED


class UnexpectedErrors(Interceptor):
    """Turns exceptions that no activity raises on purpose into non-retryable failures."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 -- the SDK's name
        """Wrap every activity."""
        return _Translating(next)


class _Translating(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name
        try:
            return await super().execute_activity(input)
        except FailureError:  # raised on purpose, or a cancellation
            raise
        except UnsafeName as error:
            raise non_retryable_failure(INVALID_POD_NAME, str(error)) from error
        except Exception as error:
            raise unexpected_failure(error) from error


def unexpected_failure(error: Exception) -> ApplicationError:
    """Build the failure for an exception that nothing raises on purpose."""
    kind = type(error).__name__
    return non_retryable_failure(UNEXPECTED, f"a defect of tempolet, please report it: {kind}: {error}")
