"""Servers that answer to do harm; `python -m tests.activities.foreign.peers FOLDER` runs them all in a process of its own.

In the tests' process they would stop the event loop themselves, by Python's lock. It prints where each one listens, as
JSON, and ends when its stdin does. What a server sends ends after some seconds, so that a test without the defence ends,
too.
"""

import contextlib
import gzip
import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from time import monotonic

from proto.cri.v1 import api_pb2 as cri
from proto.csi.v1 import csi_pb2 as csi
from proto.pluginregistration.v1 import api_pb2 as registration
from tests.activities.foreign.http2 import PING, SETTINGS, Answering, field, frame, message
from tests.activities.foreign.tls import key_pair

MIB = 2**20
SECONDS = 6
Serve = Callable[[socket.socket], None]
_OK = b"HTTP/1.1 200 OK\r\n"
_INTERIM = b"HTTP/1.1 100 C\r\n\r\n" * 4000


def sends(*parts: bytes, then: Iterator[bytes] | None = None) -> Serve:
    """Read the request's beginning, send these, then what follows for some seconds."""

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(4096)
        for part in parts:
            connection.sendall(part)
        end = monotonic() + SECONDS
        for more in then or ():
            connection.sendall(more)
            if monotonic() > end:
                break

    return serve


def at_once(data: bytes) -> Serve:
    """Send without being asked."""

    def serve(connection: socket.socket) -> None:
        end = monotonic() + SECONDS
        while monotonic() < end:
            connection.sendall(data)

    return serve


def answers(body: Callable[[], bytes], head: bytes = b"") -> Serve:
    """Answer every gRPC call with these bytes."""
    return lambda connection: Answering(connection, head).serve(body)


def floods(frames: bytes) -> Serve:
    """Send frames of HTTP/2 that ask nothing."""
    return lambda connection: Answering(connection).flood(frames)


def secure(serve: Serve, context: ssl.SSLContext) -> Serve:
    """Speak TLS."""

    def secured(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            serve(wrapped)

    return secured


def web_peers(tls: ssl.SSLContext) -> dict[str, Serve]:
    """HTTP, for probes, hooks and the URL of static pods."""
    zipped = gzip.compress(bytes(32 * MIB), 1)
    chunks = b"1\r\nx\r\n" * 10_000
    return {
        "interim-heads": sends(then=repeat(_INTERIM)),
        "trickled-header": sends(_OK + b"X: " + b"a" * 1_000_000, then=repeat(b"a")),
        "endless-header": sends(_OK + b"X: ", then=repeat(b"a" * 65536)),
        "endless-fields": sends(_OK, then=repeat(b"a\n" * 32768)),
        "long-redirect": sends(b"HTTP/1.1 302 F\r\nLocation: /" + b"../a/" * 200_000 + b"\r\n\r\n"),
        "redirect-that-is-no-url": sends(b"HTTP/1.1 302 F\r\nLocation: //[\r\n\r\n"),
        "long-length": sends(_OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"),
        "blank-lines": sends(b"\r\n" * 32768),
        "trickled-body": sends(_OK + b"Content-Length: 9999\r\n\r\n", then=repeat(b"a")),
        "small-chunks": sends(_OK + b"Transfer-Encoding: chunked\r\n\r\n", then=repeat(chunks)),
        "zipped": sends(_OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(zipped) + zipped),
        "tls-interim-heads": secure(sends(then=repeat(_INTERIM)), tls),
        "flood": at_once(b"x" * 65536),
    }


def grpc_peers() -> dict[str, Serve]:
    """gRPC, for probes, commands, CSI drivers and plugins."""
    endless_number = message(b"\x08" + b"\xff" * (4 * MIB - 1))
    zipped = gzip.compress(bytes(64 * MIB), 1)
    written = message(cri.ExecSyncResponse(stdout=bytes(8 * MIB), stderr=bytes(7 * MIB)).SerializeToString())
    versions = registration.PluginInfo(type="CSIPlugin", name="a.b", supported_versions=["1.0"] * 400_000)
    far = registration.PluginInfo(type="CSIPlugin", name="a.b", supported_versions=[f"1.{'9' * 5000}"])
    rpc = csi.NodeServiceCapability(rpc=csi.NodeServiceCapability.RPC(type="STAGE_UNSTAGE_VOLUME"))
    capabilities = csi.NodeGetCapabilitiesResponse(capabilities=[rpc] * 400_000)
    topology = csi.Topology(segments={f"k{number}": "v" for number in range(100_000)})
    info = csi.NodeGetInfoResponse(node_id="n", accessible_topology=topology)
    return {
        "grpc-endless-number": answers(lambda: endless_number),
        "grpc-announced-gigabytes": answers(lambda: message(bytes(64 * MIB), 2**32 - 1)),
        "grpc-zipped": answers(lambda: message(zipped, compressed=True), field("grpc-encoding", "gzip")),
        "grpc-pings": floods(frame(PING, 0, 0, bytes(8)) * 1000),
        "grpc-settings": floods(frame(SETTINGS, 0, 0, b"") * 1000),
        "grpc-no-grpc": at_once(b"SSH-2.0-x\r\n" * 1000),
        "exec-16-mib": answers(lambda: written),
        "plugin-many-versions": answers(lambda: message(versions.SerializeToString())),
        "plugin-far-version": answers(lambda: message(far.SerializeToString())),
        "plugin-garbage": answers(lambda: message(b"\xff" * 100)),
        "csi-many-capabilities": answers(lambda: message(capabilities.SerializeToString())),
        "csi-large-topology": answers(lambda: message(info.SerializeToString())),
        "csi-garbage": answers(lambda: message(b"\xff" * 100)),
        "negative-length": answers(lambda: message(b"\x7a" + b"\x80" * 9 + b"\x01")),  # of a field to skip, in 64 bits
    }


def listen(serve: Serve, socket_path: Path | None = None) -> int:
    """Serve in threads; returns the port, also listening on a socket file for clients of plugins."""
    server = socket.create_server(("127.0.0.1", 0), backlog=8)
    threading.Thread(target=_accept, args=(server, serve), daemon=True).start()
    if socket_path is not None:
        local = socket.socket(socket.AF_UNIX)
        local.bind(str(socket_path))
        local.listen(8)
        threading.Thread(target=_accept, args=(local, serve), daemon=True).start()
    return int(server.getsockname()[1])


def _accept(server: socket.socket, serve: Serve) -> None:
    def one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            serve(connection)

    while True:
        threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()


def main(folder: Path) -> None:
    """Run all peers until stdin ends."""
    pem = key_pair(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    tickets = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tickets.load_cert_chain(pem)
    tickets.num_tickets = 20_000
    web = {**web_peers(context), "tls-many-tickets": secure(sends(_OK + b"\r\n"), tickets)}
    ports = {name: listen(serve) for name, serve in web.items()}
    ports |= {name: listen(serve, folder / name) for name, serve in grpc_peers().items()}
    json.dump(ports, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
