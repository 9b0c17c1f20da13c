"""A proxy between a node and its API server, which passes TLS on as it is: it breaks connections, refuses them, or lets them hang."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"
AT_ONCE: Final = 64 << 10
_RESET: Final = struct.pack("ii", 1, 0)
"""Linger for no time: a closed connection is reset."""


class ApiProxy:
    """A context manager that listens on a free port of loopback."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)

    @property
    def server(self) -> str:
        """The URL that the node has for the API server."""
        return f"https://{LOOPBACK}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._refuses = True
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self._passes.set()
        self._cut()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Reset every connection while the block runs, and each new one."""
        self._refuses = True
        self._cut()
        try:
            yield
        finally:
            self._refuses = False

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Take connections and bytes while the block runs, and pass nothing on."""
        self._passes.clear()
        try:
            yield
        finally:
            self._passes.set()

    def _cut(self) -> None:
        with self._lock:
            for one in self._open:
                _reset(one)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                _reset(client)
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self._upstream)) as server:
            with self._lock:
                self._open |= {client, server}
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(AT_ONCE):
                self._passes.wait()
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RDWR)
