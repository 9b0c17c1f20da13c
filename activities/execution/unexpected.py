"""An activity's own defect is told once, not retried in silence.

Temporal retries whatever an activity raises, and ours are retried without end so that a runtime may be away for hours.
A defect of ours would be tried for ever with nothing to see but a pending activity; so it becomes a failure like any
other, with the reason `UnexpectedError`, and the workflow shows it and backs off. The worker installs this interceptor.
"""

from typing import Any

from temporalio.exceptions import FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.execution.errors import failed
from activities.files.pod_paths import NoPlainName
from proto.temporal.failure_types import INVALID_POD_NAME, UNEXPECTED


class UnexpectedErrors(Interceptor):
    """Turns what no activity means to raise into a failure that is not retried."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 -- the SDK's name
        """Stand before every activity."""
        return _Translating(next)


class _Translating(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name
        try:
            return await super().execute_activity(input)
        except FailureError:  # meant, or a cancel
            raise
        except NoPlainName as error:
            raise failed(INVALID_POD_NAME, str(error)) from error
        except Exception as error:
            kind = type(error).__name__
            raise failed(UNEXPECTED, f"a defect of tempolet, please report it: {kind}: {error}") from error
