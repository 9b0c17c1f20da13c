"""Is the answer to ExecSync cut where it is read, and is a long one refused before it is received?"""

import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc.aio
import pytest

from activities.clients.cri_error import CriError
from activities.clients.exec_sync import SHORT_ANSWER, WHOLE, AnswerTooLong, ExecAnswer, cut_answer
from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri


@pytest.mark.parametrize(
    ("response", "keep", "answer"),
    [
        pytest.param(cri.ExecSyncResponse(), WHOLE, ExecAnswer(), id="nothing"),
        pytest.param(
            cri.ExecSyncResponse(stdout=b"out", stderr=b"err", exit_code=3),
            WHOLE,
            ExecAnswer(b"out", b"err", 3),
            id="whole",
        ),
        pytest.param(
            cri.ExecSyncResponse(stdout=b"output", stderr=b"e"), slice(3), ExecAnswer(b"out", b"e"), id="the-beginning"
        ),
        pytest.param(
            cri.ExecSyncResponse(stdout=b"output", stderr=b"e"),
            slice(-3, None),
            ExecAnswer(b"put", b"e"),
            id="the-end",
        ),
        pytest.param(cri.ExecSyncResponse(exit_code=-1), WHOLE, ExecAnswer(exit_code=-1), id="a-negative-code"),
        pytest.param(
            cri.ExecSyncResponse(stdout=b"x" * 100_000), slice(5), ExecAnswer(b"xxxxx"), id="a-length-of-three-bytes"
        ),
    ],
)
def test_an_answer(response: cri.ExecSyncResponse, keep: slice, answer: ExecAnswer) -> None:
    """As protobuf writes it."""
    assert cut_answer(response.SerializeToString(), keep) == answer


@pytest.mark.parametrize("keep", [slice(10 * 1024), slice(-10 * 1024, None)], ids=["as-a-probe", "as-a-hook"])
def test_a_long_answer_is_not_copied(keep: slice) -> None:
    """Many hooks that write 16 MiB end at once when a node is drained: gRPC copies them on the event loop, we do not."""
    message = cri.ExecSyncResponse(stdout=bytes(8 * 2**20), stderr=bytes(8 * 2**20)).SerializeToString()
    tracemalloc.start()
    try:
        cut_answer(message, keep)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\x0a\x05abc", id="longer-than-the-message"),
        pytest.param(b"\x0a" + b"\xff" * 100, id="a-length-without-an-end"),
        pytest.param(b"\x7a" + b"\x80" * 9 + b"\x01", id="a-length-that-is-negative-in-64-bits"),
        pytest.param(b"\x0a", id="no-length"),
        pytest.param(b"\x0d\x01\x02\x03\x04", id="another-wire-type"),
    ],
)
def test_no_answer(message: bytes) -> None:
    """It is refused."""
    with pytest.raises(ValueError, match=r"^a (field|number)"):
        cut_answer(message, WHOLE)


async def test_a_long_answer_is_taken_only_from_whom_it_is_expected(tmp_path: Path) -> None:
    """A short call refuses it, and says so in a way of its own; what cannot be decoded is an error of the runtime."""
    answers = {"long": cri.ExecSyncResponse(stdout=b"x" * SHORT_ANSWER).SerializeToString(), "garbage": b"\xff" * 99}

    async def exec_sync(request: bytes, _: Any) -> bytes:
        return answers[cri.ExecSyncRequest.FromString(request).container_id]

    server = grpc.aio.server()
    handlers = {"ExecSync": grpc.unary_unary_rpc_method_handler(exec_sync)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", handlers),))
    server.add_insecure_port(f"unix://{tmp_path}/cri.sock")
    await server.start()
    runtime = RuntimeClient(f"{tmp_path}/cri.sock", Mock())
    try:
        with pytest.raises(AnswerTooLong):
            await runtime.exec_sync_short("long", ["yes"], 1, keep=slice(3))
        assert await runtime.exec_sync("long", ["yes"], 1, keep=slice(3)) == ExecAnswer(b"xxx")
        with pytest.raises(CriError, match="cannot be decoded"):
            await runtime.exec_sync("garbage", ["yes"])
    finally:
        await runtime.close()
        await server.stop(None)
