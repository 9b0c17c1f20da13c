"""A registry on loopback that serves one image of an OCI archive: enough of the distribution API for a real pull.

It counts requests for manifests and can be told to fail, so that a test sees when an image is pulled and what a failed
pull looks like.
"""

import base64
import contextlib
import hashlib
import json
import tarfile
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass
class Registry:
    """Serves the archive's only image as any repository and tag; a context manager.

    A label makes it another image with the same layers: the runtime may report any of an image's names.
    """

    archive: Path
    label: str = ""
    failing_with: HTTPStatus | None = None
    login: str = ""
    """`user:password`; without it everybody may pull."""
    seconds_a_manifest: float = 0.0
    """How long the first response of a pull is delayed."""
    truncated: bool = False
    """Layers are shorter than their Content-Length."""
    redirecting: bool = False
    """Requests for a manifest are redirected to themselves."""
    endless: bool = False
    """Layers have no Content-Length and never end."""
    echoing: bool = False
    """An error quotes the credentials, as careless registries do."""
    manifests_asked: list[str] = field(default_factory=list)
    sent: int = 0
    """Bytes sent of endless layers."""
    listeners: int = 0
    """Connections that receive endless layers."""
    pulls: int = 0
    """Number of HEAD requests that resolved a tag."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    closing: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> Self:
        with tarfile.open(self.archive) as archive:
            for member in archive.getmembers():
                if member.isfile() and (content := archive.extractfile(member)):
                    self.blobs["sha256:" + member.name.rpartition("/")[2]] = content.read()
        index = json.loads(self.blobs["sha256:index.json"])
        self.manifest = index["manifests"][0]
        if self.label:
            self._put_label()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def host(self) -> str:
        """host:port, the start of an image's name."""
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def tags_asked(self) -> int:
        """Number of times that a tag was resolved: once for each pull."""
        return sum(1 for one in self.manifests_asked if not one.startswith("sha256:"))

    def _put_label(self) -> None:
        manifest = json.loads(self.blobs[self.manifest["digest"]])
        config = json.loads(self.blobs[manifest["config"]["digest"]])
        config["config"]["Labels"] = {"label": self.label}
        manifest["config"] |= self._put(config)
        self.manifest = self.manifest | self._put(manifest)

    def _put(self, content: Any) -> dict[str, Any]:
        blob = json.dumps(content).encode()
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        self.blobs[digest] = blob
        return {"digest": digest, "size": len(blob)}

    def _answer(self, path: str, authorization: str = "") -> tuple[HTTPStatus, str, bytes]:
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            said = base64.b64decode(authorization.removeprefix("Basic ")).decode() if self.echoing else "refused"
            errors = {"errors": [{"code": "UNAUTHORIZED", "message": said, "detail": authorization}]}
            return HTTPStatus.UNAUTHORIZED, "application/json", json.dumps(errors).encode()
        match path.strip("/").split("/"):
            case ["v2"]:
                return HTTPStatus.OK, "application/json", b"{}"
            case ["v2", *_, "manifests", reference]:
                self.manifests_asked.append(reference)
                if not reference.startswith("sha256:"):
                    self.closing.wait(self.seconds_a_manifest)
                if self.redirecting:
                    return HTTPStatus.TEMPORARY_REDIRECT, "text/plain", b""
                if self.failing_with is not None:
                    return self.failing_with, "application/json", b'{"errors":[]}'
                digest = reference if reference.startswith("sha256:") else self.manifest["digest"]
                return HTTPStatus.OK, self.manifest["mediaType"], self.blobs[digest]
            case ["v2", *_, "blobs", digest] if digest in self.blobs:
                return HTTPStatus.OK, "application/octet-stream", self.blobs[digest]
            case _:
                return HTTPStatus.NOT_FOUND, "application/json", b"{}"

    def _end_of(self, path: str, status: HTTPStatus, body: bytes) -> tuple[str, str]:
        """Send the header that tells where the response ends, or that it does not."""
        if status is HTTPStatus.TEMPORARY_REDIRECT:
            return "Location", path
        return ("Connection", "close") if self.endless and "/blobs/" in path else ("Content-Length", str(len(body)))

    def _send_without_end(self, body: BufferedIOBase) -> None:
        """Send until the client disconnects."""
        self.listeners += 1
        with contextlib.suppress(OSError):
            while not self.closing.wait(0.01):
                body.write(bytes(1 << 20))
                self.sent += 1 << 20
        self.listeners -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            """Serves GET and HEAD."""

            def do_GET(self) -> None:
                """Respond with a body."""
                body = self._head()
                if registry.endless and "/blobs/" in self.path:
                    self.close_connection = True
                    registry._send_without_end(self.wfile)
                    return
                if registry.truncated and "/blobs/" in self.path:
                    body, self.close_connection = body[: len(body) // 2], True
                self.wfile.write(body)

            def do_HEAD(self) -> None:
                """Respond without a body."""
                kind, _, reference = self.path.partition("?")[0].rpartition("/")
                registry.pulls += kind.endswith("/manifests") and not reference.startswith("sha256:")
                self._head()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
                """Log nothing."""

            def _head(self) -> bytes:
                status, kind, body = registry._answer(
                    self.path.partition("?")[0], self.headers.get("Authorization", "")
                )
                self.send_response(status)
                self.send_header("Content-Type", kind)
                if status is HTTPStatus.UNAUTHORIZED:
                    self.send_header("WWW-Authenticate", 'Basic realm="registry"')
                self.send_header(*registry._end_of(self.path, status, body))
                if "manifests" in self.path and status is HTTPStatus.OK:
                    self.send_header("Docker-Content-Digest", registry.manifest["digest"])
                self.end_headers()
                return body

        return Handler
