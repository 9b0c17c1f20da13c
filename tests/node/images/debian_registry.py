"""Debian's docker-registry on loopback, with or without a password: a registry that real nodes pull from."""

import base64
import hashlib
import http.client
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from tests import patience
from tests.free_ports import free_ports
from tests.waiting import wait_until
from worker.standalone.machine import programs
from worker.standalone.parts.fetch import REGISTRY

USER: Final = "robot"
PASSWORD: Final = "wrench-canary-7Q"
HTPASSWD: Final = f"{USER}:$2b$05$abcdefghijklmnopqrstuuMRlKx2TLh3ZMWRvNhVc19w0qw7B/OsW\n"
"""The same as bcrypt, the only format that docker-registry accepts."""
PATIENCE: Final = patience.PATIENCE


def program() -> Path:
    """Return its path; `make test` downloads it."""
    return programs.default_parts_dir() / REGISTRY


@dataclass
class DebianRegistry:
    """One registry with its own folder; a context manager."""

    folder: Path
    guarded: bool = False
    port: int = field(default_factory=lambda: free_ports(1)[0])
    process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        configuration = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "images")}},
            "http": {"addr": self.host},
        }
        if self.guarded:
            (self.folder / "htpasswd").write_text(HTPASSWD)
            configuration["auth"] = {"htpasswd": {"realm": "test", "path": str(self.folder / "htpasswd")}}
        (self.folder / "config.yml").write_text(json.dumps(configuration))
        with (self.folder / "log").open("wb") as log:
            command = [str(program()), "serve", str(self.folder / "config.yml")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait()

    @property
    def host(self) -> str:
        """host:port, the start of an image's name."""
        return f"127.0.0.1:{self.port}"

    def push(self, archive: Path, name: str, tag: str) -> None:
        """Push the only image of an OCI archive."""
        blobs: dict[str, bytes] = {}
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if member.isfile() and (content := tar.extractfile(member)):
                    blobs[member.name.rpartition("/")[2]] = content.read()
        listed = json.loads(blobs["index.json"])["manifests"][0]
        manifest = blobs[listed["digest"].removeprefix("sha256:")]
        parts = json.loads(manifest)
        for one in (parts["config"], *parts["layers"]):
            self._push_blob(name, blobs[one["digest"].removeprefix("sha256:")])
        headers = {"Content-Type": listed["mediaType"]}
        self._ask("PUT", f"/v2/{name}/manifests/{tag}", manifest, headers)

    def _push_blob(self, name: str, content: bytes) -> None:
        location = urlsplit(self._ask("POST", f"/v2/{name}/blobs/uploads/").headers["Location"])
        digest = f"digest=sha256:{hashlib.sha256(content).hexdigest()}"
        self._ask(
            "PUT",
            f"{location.path}?{location.query}&{digest}",
            content,
            {"Content-Type": "application/octet-stream"},
        )

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        connection.request(method, path, body, {"Authorization": f"Basic {login}", **(headers or {})})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {said[:300]!r}")
        return answer

    def _await(self) -> None:
        """Wait until it answers; raises TimeoutError with its log."""
        wait_until(self._answers, (self.folder / "log").read_text)

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/v2/")
        except OSError:
            return False
        return True
