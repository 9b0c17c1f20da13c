"""Connections that are carried on: bytes go from one socket to another until either side ends.

Two threads a connection, which sleep in the kernel while nothing is said: the clients are a few, and a thread answers
sooner than an event loop.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

BUFFER_BYTES: Final = 1 << 16
LAST_WORDS_WITHIN: Final = 1.0
LAST_BLOCKS: Final = 16
STACK_BYTES: Final = 1 << 18
"""Enough for these threads; the default of 8 MiB counts against a memory limit of address space."""


def carry(caller: socket.socket, server: socket.socket) -> None:
    """Carry bytes both ways until one side ends; then both are shut down."""
    back = threading.Thread(target=_pour, args=(server, caller), daemon=True)
    back.start()
    _pour(caller, server)
    back.join()


def answer_last(caller: socket.socket, text: bytes) -> None:
    """Send an answer that ends the connection, and let the caller read it: closed before what it sends, it would be reset."""
    caller.settimeout(LAST_WORDS_WITHIN)
    caller.sendall(text)
    caller.shutdown(socket.SHUT_WR)
    for _ in range(LAST_BLOCKS):
        if not caller.recv(BUFFER_BYTES):
            return


def serve_connections(listener: socket.socket, serve: Callable[[socket.socket], None], at_once: int) -> None:
    """Serve each connection of a listener in a thread, for ever; one over `at_once` is closed."""
    places = threading.BoundedSemaphore(at_once)

    def serve_one(caller: socket.socket) -> None:
        try:
            with caller, contextlib.suppress(OSError):  # a caller that has gone
                serve(caller)
        finally:
            places.release()

    while True:
        caller, _ = listener.accept()
        if places.acquire(blocking=False):
            threading.Thread(target=serve_one, args=(caller,), daemon=True).start()
        else:
            caller.close()


def _pour(source: socket.socket, sink: socket.socket) -> None:
    buffer = bytearray(BUFFER_BYTES)
    with contextlib.suppress(OSError), memoryview(buffer) as view:
        while count := source.recv_into(buffer):
            sink.sendall(view[:count])
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
