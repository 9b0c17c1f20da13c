"""What a failure in a history says: `history` tells it, of what has failed and of what is still being tried."""

from typing import Any

from temporalio.api.failure.v1 import Failure

from worker.history.sentences import reading


def describe_failure(failure: Failure) -> str:
    """Say a failure: its Kubernetes reason and message, which the codec keeps in the encoded attributes."""
    reason = failure.application_failure_info.type
    return f"{reason}: {failure_message(failure)}" if reason else failure_message(failure)


def failure_message(failure: Failure) -> str:
    """Say a failure's message alone."""
    encoded = reading(failure.encoded_attributes.data, dict[str, Any]) or {}
    return str(encoded.get("message") or failure.message)
