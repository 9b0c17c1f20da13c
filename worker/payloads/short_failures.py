"""Failures that history can carry, with all that they were raised from.

Given by `codec` to every Temporal client of ours, so it is the one place that all failures go through. An activity cuts
only the message that the workflow judges; its cause travels behind it, and would bring a runtime's whole text into history.
"""

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter

from proto.temporal.messages import MAX_MESSAGE, shorten


class ShortFailures(DefaultFailureConverter):
    """Cuts the message and the stack of each failure, then puts both where the codec seals them."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """Turn an error into what Temporal keeps; the SDK's own calls it for each cause in turn."""
        super().to_failure(exception, payload_converter, failure)
        told = {"message": shorten(failure.message), "stack_trace": _innermost(failure.stack_trace)}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([told])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""  # the SDK's word for it


def _innermost(stack_trace: str) -> str:
    """Keep the end of a stack, where the error arose."""
    return stack_trace if len(stack_trace) <= MAX_MESSAGE else f"…{stack_trace[1 - MAX_MESSAGE :]}"
