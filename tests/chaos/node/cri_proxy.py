"""A proxy between the node's processes and containerd: it writes each CRI call into a ledger, and does to it what a scenario says.

It passes bytes on, so a field or method that it does not know passes, too. Streaming of exec, attach and port-forward goes past it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from tests.chaos.node.ledger import Call, Ledger, made_by, subject

THREADS: Final = 96
"""Each call under way takes one."""
LARGEST: Final = 64 << 20
LONGEST: Final = 30 * 24 * 3600.0
"""Seconds of a deadline; a call without one has some that no timer takes."""
STREAMS: Final = ("GetContainerEvents", "Stream")
"""How the names of methods begin that answer with a stream."""
OPTIONS: Final = (("grpc.max_receive_message_length", LARGEST), ("grpc.max_send_message_length", LARGEST))


class Where(StrEnum):
    """A moment of a call."""

    BEFORE = "before"
    MIDDLE = "in the middle"
    AFTER = "after the effect"


@dataclass(slots=True)
class CallFault:
    """What happens to some calls."""

    name: str
    methods: frozenset[str]
    """Empty: every call that changes something."""
    where: Where
    act: Callable[[], None] = lambda: None
    """Called at that moment of the first of them."""
    refuses: bool = False
    """The caller gets UNAVAILABLE: before the effect, or after it, so that the reply is lost."""
    seconds: float = 0.0
    """How long the call waits there."""
    skip: int = 0
    """So many calls pass first."""
    times: int = 1
    """So many calls are concerned."""
    struck: threading.Event = field(default_factory=threading.Event)
    """It has happened for the first time."""

    def concerns(self, method: str) -> bool:
        """Say whether it is about a method."""
        return method in (self.methods or CHANGING)


CHANGING: Final = frozenset(
    {
        "RunPodSandbox",
        "StopPodSandbox",
        "RemovePodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "UpdateContainerResources",
        "PullImage",
    }
)


class CriProxy(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it takes none when it runs
    """A context manager that serves on a unix socket."""

    def __init__(self, socket: Path, containerd: str) -> None:
        self.endpoint = f"unix://{socket}"
        self.ledger = Ledger()
        self.faults: list[CallFault] = []
        self._lock = threading.Lock()
        self._upstream = grpc.insecure_channel(containerd, options=OPTIONS)
        self._server = grpc.server(futures.ThreadPoolExecutor(THREADS), handlers=[self], options=OPTIONS)
        self._server.add_insecure_port(self.endpoint)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._server.stop(grace=None).wait()
        self._upstream.close()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Take any method."""
        path = handler_call_details.method
        method = path.rpartition("/")[2]
        if method.startswith(STREAMS):
            return grpc.unary_stream_rpc_method_handler(lambda asked, context: self._stream(path, asked, context))
        return grpc.unary_unary_rpc_method_handler(lambda asked, context: self._call(path, asked, context))

    def _call(self, path: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        method = path.rpartition("/")[2]
        call = self.ledger.begin(Call(method, time.monotonic(), subject(method, request)))
        fault = self._due(method)
        call.fault = f"{fault.name}, {fault.where}" if fault else ""
        self._at(Where.BEFORE, fault, context, call)
        left = context.time_remaining()
        limit = None if left is None or left > LONGEST else left
        under_way = self._upstream.unary_unary(path, None, None).future(request, timeout=limit)
        if not context.add_callback(under_way.cancel):
            under_way.cancel()  # type: ignore[no-untyped-call]  # grpc-stubs leaves it out
        self._at(Where.MIDDLE, fault, context, call)
        try:
            answer: bytes = under_way.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            call.ended = time.monotonic()
            code = error.code() if isinstance(error, grpc.RpcError) else grpc.StatusCode.CANCELLED
            call.code = code.name
            context.abort(code, (error.details() or "") if isinstance(error, grpc.RpcError) else "cancelled")
        call.made, call.ended, call.code = made_by(method, answer), time.monotonic(), "OK"
        self._at(Where.AFTER, fault, context, call)
        return answer

    def _stream(self, path: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        stream = self._upstream.unary_stream(path, None, None)(request)
        context.add_callback(stream.cancel)
        try:
            yield from stream
        except grpc.RpcError as error:
            context.abort(error.code(), error.details() or "")

    def _due(self, method: str) -> CallFault | None:
        with self._lock:
            for one in self.faults:
                if one.concerns(method) and one.times > 0:
                    if one.skip > 0:
                        one.skip -= 1
                        return None
                    one.times -= 1
                    return one
        return None

    def _at(self, where: Where, fault: CallFault | None, context: grpc.ServicerContext, call: Call) -> None:
        if fault is None or fault.where is not where:
            return
        if not fault.struck.is_set():
            fault.act()
            fault.struck.set()
        if fault.seconds:
            time.sleep(fault.seconds)
        if fault.refuses:
            if call.ended is None:
                call.ended, call.code = time.monotonic(), "REFUSED"
            context.abort(grpc.StatusCode.UNAVAILABLE, f"chaos: {fault.name}")
