"""Does each refusal of the runtime become what its caller may do, and no more?"""

import grpc
import pytest

from activities.clients.cri_error import CriError, Remedy, remedy_for
from activities.execution.errors import runtime_failure
from proto.messages import MAX_MESSAGE

ENDPOINT = "unix:///run/containerd/containerd.sock"
RESERVED = 'failed to reserve sandbox name "a_b_c_0": name "a_b_c_0" is reserved for "1234"'


@pytest.mark.parametrize(
    ("code", "details", "remedy"),
    [
        pytest.param(grpc.StatusCode.UNAVAILABLE, "failed to connect", Remedy.RETRY, id="away"),
        pytest.param(grpc.StatusCode.NOT_FOUND, "no such container", Remedy.GONE, id="gone"),
        pytest.param(grpc.StatusCode.UNKNOWN, RESERVED, Remedy.ADOPT, id="name-reserved-is-known-by-its-text"),
        pytest.param(grpc.StatusCode.ALREADY_EXISTS, "snapshot", Remedy.ADOPT, id="already-exists"),
        pytest.param(grpc.StatusCode.RESOURCE_EXHAUSTED, "message too large", Remedy.WAIT, id="exhausted"),
        pytest.param(grpc.StatusCode.DEADLINE_EXCEEDED, "", Remedy.TIMED_OUT, id="timed-out"),
        pytest.param(grpc.StatusCode.UNKNOWN, "cni failed", Remedy.PERMANENT, id="unknown"),
        pytest.param(grpc.StatusCode.INTERNAL, "", Remedy.PERMANENT, id="internal"),
        pytest.param(grpc.StatusCode.INVALID_ARGUMENT, "", Remedy.PERMANENT, id="invalid"),
    ],
)
def test_remedies(code: grpc.StatusCode, details: str, remedy: Remedy) -> None:
    """One table for all callers."""
    assert remedy_for(code, details) is remedy


def test_only_an_absent_runtime_is_left_to_temporals_retries() -> None:
    """It names the endpoint and what to do; anything else is the workflow's to judge."""
    away = runtime_failure(CriError("Status", grpc.StatusCode.UNAVAILABLE, "refused"), ENDPOINT, "Other", "x")
    assert (away.type, away.non_retryable) == ("RuntimeUnavailable", False)
    assert ENDPOINT in away.message
    assert "start containerd" in away.message
    refused = runtime_failure(
        CriError("StartContainer", grpc.StatusCode.UNKNOWN, "no"), ENDPOINT, "RunContainerError", "x"
    )
    assert (refused.type, refused.non_retryable, refused.message) == ("RunContainerError", True, "x: no")


def test_a_long_message_is_cut() -> None:
    """History carries it, and status too."""
    error = CriError("CreateContainer", grpc.StatusCode.UNKNOWN, "x" * 100_000)
    told = runtime_failure(error, ENDPOINT, "CreateContainerError", "y" * 100)
    assert len(told.message.encode()) == MAX_MESSAGE
    assert told.message.endswith("…")
