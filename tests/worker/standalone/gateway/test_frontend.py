"""Does the gateway lead to Temporal's frontend as the SDK's core asks for it, and directly?"""

import contextlib
import socket
import threading

import pytest

from tests.worker.standalone.gateway.talking import answered, echoing, on_loopback, port_of
from worker.standalone.gateway.carrying import carry, serve_connections
from worker.standalone.gateway.frontend import CONNECTED, Frontend

CONNECT = b"CONNECT 127.0.0.1:7233 HTTP/1.1\r\nhost: 127.0.0.1:7233\r\n\r\n"
GRPC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def test_the_cores_request_is_answered_and_then_only_bytes_pass() -> None:
    """Its request for a connection does not reach Temporal, whatever address it names."""
    ours, theirs = socket.socketpair()
    with ours, echoing(listener := on_loopback()) as seen:
        ours.settimeout(20)
        threading.Thread(target=Frontend(port_of(listener)).serve, args=(theirs,), daemon=True).start()
        ours.sendall(CONNECT.replace(b"127.0.0.1:7233", b"elsewhere:1"))
        assert ours.recv(4096) == CONNECTED
        ours.sendall(GRPC)
        assert ours.recv(4096) == b"seen"
    assert seen == [GRPC]


def test_grpc_passes_at_once() -> None:
    """The `temporal` command opens the socket itself."""
    with echoing(listener := on_loopback()) as seen:
        assert answered(Frontend(port_of(listener)).serve, GRPC) == b"seen"
    assert seen == [GRPC]


@pytest.mark.parametrize(
    ("asked", "begins"), [pytest.param(CONNECT, b"HTTP/1.1 503", id="core"), pytest.param(GRPC, b"", id="grpc")]
)
def test_a_temporal_that_does_not_listen_yet_ends_the_connection(asked: bytes, begins: bytes) -> None:
    """The caller tries again."""
    with on_loopback() as bound:
        port = port_of(bound)
    answer = answered(Frontend(port).serve, asked)
    assert answer.startswith(begins)
    assert bool(answer) == bool(begins)


def test_bytes_pass_both_ways_until_one_side_ends() -> None:
    """More than any buffer holds, at the same time; the other side then ends, too."""
    (caller, here), (there, server) = socket.socketpair(), socket.socketpair()
    much = b"x" * (4 << 20)
    threading.Thread(target=carry, args=(here, there), daemon=True).start()
    threading.Thread(target=caller.sendall, args=(much,), daemon=True).start()
    threading.Thread(target=server.sendall, args=(much,), daemon=True).start()
    got = [0, 0]
    for index, end in enumerate((caller, server)):
        end.settimeout(20)
        while got[index] < len(much):
            got[index] += len(end.recv(1 << 20))
    assert got == [len(much)] * 2
    caller.close()
    assert server.recv(1) == b""


def test_connections_over_the_limit_are_closed() -> None:
    """A flood takes no threads; a place that is given back is taken again."""
    listener = on_loopback()
    listener.listen()
    go = threading.Event()

    def serve(caller: socket.socket) -> None:
        caller.sendall(b"in")
        go.wait(20)

    def accept() -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            serve_connections(listener, serve, 1)

    threading.Thread(target=accept, daemon=True).start()
    with socket.create_connection(listener.getsockname()) as first:
        assert first.recv(2) == b"in"
        with socket.create_connection(listener.getsockname()) as second:
            assert second.recv(2) == b""
        go.set()
        assert first.recv(2) == b""
    while True:
        with socket.create_connection(listener.getsockname()) as third:
            if third.recv(2) == b"in":
                break
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
