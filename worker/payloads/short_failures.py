"""Limits the size of failures in a history, with all their causes.

Used by `codec` for every Temporal client of ours, so all failures pass through it. An activity shortens only the
message that the workflow reads; the causes behind it would bring a runtime's whole text into history.

Whoever reaches Temporal may fail an activity in its place, with details that cannot be read. Such a failure is read without
them: to raise would fail the workflow task at every retry.
"""

from typing import Final

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError

from proto.messages import MAX_MESSAGE, shorten

UNREADABLE: Final = "UnreadableFailure"
"""The type of a failure that tempolet has not written."""


class ShortFailures(DefaultFailureConverter):
    """Shortens the message and the stack of each failure, then moves both to where the codec encrypts them."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Convert an exception to a failure; the SDK calls it for each cause in turn."""
        super().to_failure(exception, payload_converter, failure)
        short = {"message": shorten(failure.message), "stack_trace": _innermost(failure.stack_trace)}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([short])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""  # the SDK's own placeholder

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """Convert a failure to an exception; the SDK calls it for each cause in turn."""
        try:
            return super().from_failure(failure, payload_converter)
        except Exception:  # noqa: BLE001 - whatever a stranger wrote; the reason depends on nothing but the failure
            return ApplicationError("a failure that cannot be read", type=UNREADABLE)


def _innermost(stack_trace: str) -> str:
    """Keep the end of a stack, where the error was raised."""
    return stack_trace if len(stack_trace) <= MAX_MESSAGE else f"…{stack_trace[1 - MAX_MESSAGE :]}"
