"""Between the node and a plugin that registers in `plugins_registry`: it passes every call on, and strikes at the one that a test names.

The plugin has its sockets in a folder of its own; the node knows only the proxy's, also for a driver whose registration names another one.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from enum import StrEnum
from pathlib import Path
from typing import Final

import grpc

from proto.pluginregistration.v1 import api_pb2 as registration

STREAMS: Final = ("ListAndWatch", "NodeWatchResources")
OPTIONS: Final = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500))
"""A plugin that is started again is reached soon."""
THREADS: Final = 32
REGISTRATION: Final = "pluginregistration"
"""Part of the name of the service of every plugin."""


class Where(StrEnum):
    """A moment of a call."""

    BEFORE = "before"
    AFTER = "after"
    """The plugin has answered; a node whose worker or plugin dies then never sees it."""


class PluginProxy(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it takes none when it runs
    """A socket in the registry; `open` makes it anew, as a plugin does that has started again."""

    def __init__(self, registry: Path, name: str, registering: Callable[[], Path], plugin: Path) -> None:
        """Take where the node looks for sockets, and where the plugin registers and where it is asked for the rest."""
        self._registry, self._name, self._registering, self._plugin = registry, name, registering, plugin
        self._server: grpc.Server | None = None
        self._opened = 0
        self._armed: tuple[str, Where, Callable[[], None]] | None = None
        self._loses = False
        self._lock = threading.Lock()
        self.struck = threading.Event()

    @property
    def socket(self) -> Path:
        """Where it is served."""
        return self._registry / f"{self._name}-{self._opened}.sock"

    def open(self) -> None:
        """Serve at a new socket."""
        self.close()
        self._opened += 1
        self.listed = threading.Event()
        """The node has the plugin's first list from this socket."""
        self._registration = grpc.insecure_channel(f"unix:{self._registering()}", options=OPTIONS)
        self._upstream = grpc.insecure_channel(f"unix:{self._plugin}", options=OPTIONS)
        self._server = grpc.server(futures.ThreadPoolExecutor(THREADS), handlers=[self])
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def close(self) -> None:
        """End, and remove the socket."""
        if self._server is not None:
            self.socket.unlink(missing_ok=True)
            self._server.stop(grace=None).wait()
            self._upstream.close()
            self._registration.close()
            self._server = None

    def strike_at(self, method: str, where: Where, act: Callable[[], None], *, loses: bool) -> None:
        """Do something at the next call of a method; `loses`: the caller gets no answer, because the plugin dies."""
        self.struck.clear()
        self._loses = loses
        self._armed = method, where, act

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Take any method."""
        path = handler_call_details.method
        if path.rpartition("/")[2] in STREAMS:
            return grpc.unary_stream_rpc_method_handler(lambda asked, context: self._stream(path, asked, context))
        return grpc.unary_unary_rpc_method_handler(lambda asked, context: self._call(path, asked, context))

    def _call(self, path: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        method = path.rpartition("/")[2]
        self._strike(method, Where.BEFORE, context)
        upstream = self._registration if REGISTRATION in path else self._upstream
        try:
            answer: bytes = upstream.unary_unary(path, None, None)(request, timeout=60, wait_for_ready=True)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details() or "")
        self._strike(method, Where.AFTER, context)
        return self._as_ours(answer) if method == "GetInfo" else answer

    def _stream(self, path: str, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        method, listed = path.rpartition("/")[2], self.listed
        self._strike(method, Where.BEFORE, context)
        stream = self._upstream.unary_stream(path, None, None)(request, wait_for_ready=True)
        context.add_callback(stream.cancel)
        try:
            for one in stream:
                yield one
                listed.set()
                self._strike(method, Where.AFTER, context)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details() or "")

    def _as_ours(self, answer: bytes) -> bytes:
        info = registration.PluginInfo.FromString(answer)
        info.endpoint = str(self.socket)
        return bytes(info.SerializeToString())

    def _strike(self, method: str, where: Where, context: grpc.ServicerContext) -> None:
        with self._lock:
            if self._armed is None or self._armed[:2] != (method, where):
                return
            act, self._armed = self._armed[2], None
        act()
        self.struck.set()
        if self._loses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin has died")
