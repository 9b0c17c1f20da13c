"""Commands that run in a container to their end (ExecSync); their answers are cut before anything copies or joins them.

Used by `runtime`. A command in a container writes what it wants, and the runtime passes on up to 16 MiB. A probe keeps
the first 10 KiB of it and a hook the last. So the message is read in place instead of being turned into an object,
which would copy all of it on the event loop, once more for each look at it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from activities.clients.cri_error import CriError
from proto.cri.v1 import api_pb2 as cri

WHOLE: Final = slice(None)
SHORT_ANSWER: Final = 256 * 1024
"""Bytes of a short answer. gRPC refuses a longer one when it has read its length, and does not receive the rest."""
ANSWER_SECONDS: Final = 120.0
"""How long after the command's own time limit the runtime may answer."""
_METHOD: Final = "/runtime.v1.RuntimeService/ExecSync"
_TOO_LONG: Final = "message larger than max"
_STDOUT: Final = 1
_STDERR: Final = 2
_EXIT_CODE: Final = 3
_LONGEST_VARINT: Final = 10
_INT32: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class ExecAnswer:
    """How a command ended, and the kept part of each of its outputs."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


class AnswerTooLong(Exception):
    """A command ran and wrote more than a short answer has; how it ended is unknown."""


class ExecCalls:
    """The calls of ExecSync.

    `open_short` opens a channel with SHORT_ANSWER as its limit; it is opened with the first call that needs it.
    """

    def __init__(self, channel: grpc.aio.Channel, open_short: Callable[[], grpc.aio.Channel]) -> None:
        self._channel, self._open_short = channel, open_short
        self._short: grpc.aio.Channel | None = None
        self.turn = asyncio.Semaphore()
        """Held by whoever runs one command after the other whose answers are long."""

    async def run(self, request: cri.ExecSyncRequest, keep: slice) -> ExecAnswer:
        """Run a command and return this part of each of its outputs; raises CriError."""
        return await _run(self._channel, request, keep)

    async def run_short(self, request: cri.ExecSyncRequest, keep: slice) -> ExecAnswer:
        """Run a command whose answer is short; raises AnswerTooLong if it is not."""
        if self._short is None:
            self._short = self._open_short()
        try:
            return await _run(self._short, request, keep)
        except CriError as error:
            if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LONG in error.details:
                raise AnswerTooLong from error
            raise

    async def close(self) -> None:
        """Close the channel for short answers."""
        if self._short is not None:
            await self._short.close(None)


async def _run(channel: grpc.aio.Channel, request: cri.ExecSyncRequest, keep: slice) -> ExecAnswer:
    call: Any = channel.unary_unary(_METHOD, cri.ExecSyncRequest.SerializeToString, lambda one: cut_answer(one, keep))
    deadline = request.timeout + ANSWER_SECONDS if request.timeout else None
    try:
        answer: ExecAnswer | None = await call(request, timeout=deadline)
    except grpc.aio.AioRpcError as error:
        raise CriError("ExecSync", error.code(), error.details() or "no details") from error
    if answer is None:  # gRPC's way to say that it could not be decoded
        raise CriError("ExecSync", grpc.StatusCode.INTERNAL, "the runtime's answer cannot be decoded")
    return answer


def cut_answer(message: bytes, keep: slice) -> ExecAnswer:
    """Decode an ExecSyncResponse and keep this part of each output; raises ValueError."""
    view, at = memoryview(message), 0
    numbers, outputs = {_EXIT_CODE: 0}, {_STDOUT: b"", _STDERR: b""}
    while at < len(view):
        tag, at = read_varint(view, at)
        value, at = read_varint(view, at)
        match tag & 7:
            case 0:  # a number
                numbers[tag >> 3] = value
            case 2:  # bytes, after their length
                if at + value > len(view):
                    raise ValueError("a field that is longer than its message")
                outputs[tag >> 3] = bytes(view[at : at + value][keep])
                at += value
            case other:
                raise ValueError(f"a field of wire type {other}")
    return ExecAnswer(outputs[_STDOUT], outputs[_STDERR], _signed(numbers[_EXIT_CODE]))


def read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """Read protobuf's variable-length number at a position; returns it and the position after it. Raises ValueError."""
    value = 0
    for index, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a number without an end")


def _signed(number: int) -> int:
    """Read an int32, which protobuf extends to 64 bits."""
    low = number % _INT32
    return low - _INT32 if low >= _INT32 // 2 else low
