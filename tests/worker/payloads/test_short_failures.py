"""Is a failure in a history short, and does it keep its causes?"""

from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import ActivityFailureInfo, ApplicationFailureInfo, Failure, TimeoutFailureInfo
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ActivityError, ApplicationError

from activities.execution.errors import non_retryable_failure
from proto.messages import MAX_MESSAGE
from worker.payloads.short_failures import UNREADABLE
from worker.temporal.codec import PlainCodec, data_converter, plain_data_converter
from worker.temporal.keys import KeyFile, create_key_file

LONG = "x" * 100_000
BOUND = WorkflowSerializationContext(namespace="tempolet", workflow_id="pod/n/default/web/u")


@pytest.fixture(params=["sealed", "plain"])
def converter(request: pytest.FixtureRequest, tmp_path: Path) -> DataConverter:
    """Return what clients convert with."""
    if request.param == "plain":
        return plain_data_converter()
    create_key_file(tmp_path / "keys")
    return data_converter(KeyFile(tmp_path / "keys")).with_context(BOUND)


def raised() -> ApplicationError:
    """Build an error that was raised from one that was raised from another, each with a runtime's whole text."""
    first, then, last = (
        OSError(f"first {LONG}"),
        ValueError(f"then {LONG}"),
        non_retryable_failure("ErrImagePull", f"last {LONG}"),
    )
    then.__cause__, last.__cause__ = first, then
    return last


async def test_each_cause_is_cut(converter: DataConverter) -> None:
    """The words that begin it stay, and what it is."""
    failure = Failure()
    await converter.encode_failure(raised(), failure)
    assert failure.ByteSize() < 6 * MAX_MESSAGE + 6000  # three messages with their stacks; sealed they are shorter
    assert LONG[:100].encode() not in failure.SerializeToString() or isinstance(converter.payload_codec, PlainCodec)
    error: BaseException | None = await converter.decode_failure(failure)
    for begins, kind in (("last x", "ErrImagePull"), ("then x", "ValueError"), ("first x", "OSError")):
        assert isinstance(error, ApplicationError)
        assert (error.type, len(error.message.encode()), error.message[: len(begins)]) == (kind, MAX_MESSAGE, begins)
        error = error.__cause__
    assert error is None


async def test_a_deep_stack_keeps_where_the_error_arose(converter: DataConverter) -> None:
    """A short message stays as it is."""

    def even(depth: int) -> None:
        odd(depth - 1)

    def odd(depth: int) -> None:
        if depth <= 0:
            raise KeyError("where it arose")
        even(depth - 1)

    failure = Failure()
    try:
        even(300)
    except KeyError as error:
        await converter.encode_failure(error, failure)
    decoded = await converter.decode_failure(failure)
    assert isinstance(decoded, ApplicationError)
    told = decoded.failure
    assert told is not None
    assert (told.message, len(told.stack_trace)) == ("'where it arose'", MAX_MESSAGE)
    assert 'raise KeyError("where it arose")' in told.stack_trace


UNKNOWN_TIMEOUT = Failure.FromString(b"\x32\x02\x08\x63")
"""A TimeoutFailureInfo with a type of 99."""
ENCODED = Payload(metadata={"encoding": b"binary/refused"}, data=b"not ours")


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            Failure(application_failure_info=ApplicationFailureInfo(details=Payloads(payloads=[ENCODED]))),
            id="details-that-cannot-be-read",
        ),
        pytest.param(
            Failure(timeout_failure_info=TimeoutFailureInfo(last_heartbeat_details=Payloads(payloads=[ENCODED]))),
            id="heartbeat-details-that-cannot-be-read",
        ),
        pytest.param(UNKNOWN_TIMEOUT, id="a-type-that-does-not-exist"),
    ],
)
def test_a_failure_of_a_stranger_is_read_without_what_cannot_be_read(failure: Failure) -> None:
    """The converter does not raise, which would fail the workflow task; the failure around it keeps its own facts."""
    around = Failure(activity_failure_info=ActivityFailureInfo(activity_id="image/1"), cause=failure)
    converter = plain_data_converter()
    error = converter.failure_converter.from_failure(around, converter.payload_converter)
    assert isinstance(error, ActivityError)
    assert error.activity_id == "image/1"
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.type == UNREADABLE
