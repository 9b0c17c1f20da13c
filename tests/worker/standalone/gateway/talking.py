"""Callers and servers of the gateway in one process: what a caller sends is served in a thread, as by the gateway."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

PATIENCE = 20.0


def answered(serve: Callable[[socket.socket], None], request: bytes) -> bytes:
    """Send bytes to what serves one connection, and read until it closes."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(PATIENCE)
        threading.Thread(target=_serve, args=(serve, theirs), daemon=True).start()
        ours.sendall(request)

        answer = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while block := ours.recv(4096):
                answer += block
        return bytes(answer)


def _serve(serve: Callable[[socket.socket], None], caller: socket.socket) -> None:
    with caller, contextlib.suppress(OSError):
        serve(caller)


@contextlib.contextmanager
def echoing(listener: socket.socket) -> Iterator[list[bytes]]:
    """Take connections, note what each says first, answer `seen` and close."""
    seen: list[bytes] = []

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = listener.accept()
                with caller:
                    seen.append(caller.recv(1 << 16))
                    caller.sendall(b"seen")

    listener.listen()
    threading.Thread(target=take, daemon=True).start()
    with listener:
        yield seen
        listener.shutdown(socket.SHUT_RDWR)


def on_loopback() -> socket.socket:
    """Bind a free port of loopback."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def port_of(listener: socket.socket) -> int:
    """Return the port of a listener."""
    port: int = listener.getsockname()[1]
    return port
