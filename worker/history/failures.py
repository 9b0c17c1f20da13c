"""Reads failures in a history: of activities that failed, and of attempts that are being retried."""

from typing import Any

from temporalio.api.failure.v1 import Failure

from worker.history.sentences.table import parse_payload


def describe_failure(failure: Failure) -> str:
    """Describe a failure by its Kubernetes reason and message, which the codec stores in the encoded attributes."""
    reason = failure.application_failure_info.type
    return f"{reason}: {failure_message(failure)}" if reason else failure_message(failure)


def failure_message(failure: Failure) -> str:
    """Return a failure's message."""
    encoded = parse_payload(failure.encoded_attributes.data, dict[str, Any]) or {}
    return str(encoded.get("message") or failure.message)
