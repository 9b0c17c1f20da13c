"""A registry on loopback that serves one image of an OCI archive: enough of the distribution API for a real pull.

It counts the manifests it was asked for and may be told to fail, so that a test sees when an image is pulled and what a
failed pull looks like.
"""

import hashlib
import json
import tarfile
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass
class Registry:
    """Serves any repository and tag as the archive's one image; a context manager.

    With a label it is another image of the same layers: of one image the runtime tells whichever name it likes.
    """

    archive: Path
    label: str = ""
    failing_with: HTTPStatus | None = None
    manifests_asked: list[str] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
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
        self.server.shutdown()
        self.server.server_close()

    @property
    def host(self) -> str:
        """host:port, as an image's name begins."""
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def tags_asked(self) -> int:
        """How often a tag was resolved: once a pull."""
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

    def _answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        match path.strip("/").split("/"):
            case ["v2"]:
                return HTTPStatus.OK, "application/json", b"{}"
            case ["v2", *_, "manifests", reference]:
                self.manifests_asked.append(reference)
                if self.failing_with is not None:
                    return self.failing_with, "application/json", b'{"errors":[]}'
                digest = reference if reference.startswith("sha256:") else self.manifest["digest"]
                return HTTPStatus.OK, self.manifest["mediaType"], self.blobs[digest]
            case ["v2", *_, "blobs", digest] if digest in self.blobs:
                return HTTPStatus.OK, "application/octet-stream", self.blobs[digest]
            case _:
                return HTTPStatus.NOT_FOUND, "application/json", b"{}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            """Answers GET and HEAD."""

            def do_GET(self) -> None:
                """Answer with the body."""
                self.wfile.write(self._head())

            def do_HEAD(self) -> None:
                """Answer without."""
                self._head()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
                """Say nothing."""

            def _head(self) -> bytes:
                status, kind, body = registry._answer(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if "manifests" in self.path and status is HTTPStatus.OK:
                    self.send_header("Docker-Content-Digest", registry.manifest["digest"])
                self.end_headers()
                return body

        return Handler
