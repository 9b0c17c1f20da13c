"""An API server whose service account tokens seem to expire within seconds: a proxy between a node and the real one.

The API issues no token for less than ten minutes, too long for a test. So this passes everything on unchanged except the
responses to TokenRequests, where it writes an earlier expiry; the tokens themselves are valid as issued.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.cluster.certificates import Signed
from tests.cluster.control_plane import ControlPlane, write_kubeconfig

_PIECE: Final = 1 << 16
_OURS: Final = frozenset({"connection", "content-length", "transfer-encoding", "accept-encoding", "host"})
"""Hop-by-hop headers."""


@contextmanager
def short_tokens(plane: ControlPlane, node: str, life: timedelta) -> Iterator[Path]:
    """Run the proxy while the block runs; yields the node's kubeconfig."""
    identity = plane.sign(f"system:node:{node}", "system:nodes")
    context = ssl.create_default_context(cafile=str(plane.pki / "ca.crt"))
    context.load_cert_chain(identity.certificate, identity.key)

    class Between(_Between):
        def upstream(self) -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection("127.0.0.1", plane.port, context=context)

        def ends(self) -> tuple[datetime, timedelta]:
            return datetime.now(UTC) + life, life

    server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    server.daemon_threads = True
    server.socket = _tls(plane).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="short tokens")
    thread.start()
    try:
        address = f"https://127.0.0.1:{server.server_address[1]}"
        yield write_kubeconfig(plane.directory / f"short-{node}.kubeconfig", address, plane.pki / "ca.crt", identity)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _tls(plane: ControlPlane) -> ssl.SSLContext:
    own: Signed = plane.authority.sign("short-tokens", "short-tokens", hosts=("127.0.0.1",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certificate, own.key)
    return context


class _Between(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def upstream(self) -> http.client.HTTPSConnection:
        """Connect to the API server."""
        raise NotImplementedError

    def ends(self) -> tuple[datetime, timedelta]:
        """Return when a token issued now expires, and after how long."""
        raise NotImplementedError

    def pass_on(self) -> None:
        """Forward the request, and stream the response: it may be a watch."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OURS}
        connection = self.upstream()
        try:
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OURS:
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if self.path.endswith("/token"):
                self._piece(self._shortened(answer.read()))
            else:
                while piece := answer.read1(_PIECE):
                    self._piece(piece)
            self._piece(b"")
        except OSError:  # either side has disconnected
            self.close_connection = True
        finally:
            connection.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _shortened(self, answer: bytes) -> bytes:
        """Write an earlier expiry into the response to a TokenRequest; an error is left unchanged."""
        said = json.loads(answer)
        if "token" in (said.get("status") or {}):
            end, life = self.ends()
            said["status"]["expirationTimestamp"] = f"{end:%Y-%m-%dT%H:%M:%SZ}"
            said["spec"]["expirationSeconds"] = round(life.total_seconds())
        return json.dumps(said).encode()
