"""What containers and hooks themselves say that they did: an account of a run that neither Temporal nor the node writes.

Containers and the hooks that run in them append a line to a file of the host. A preStart or postStop hook has another file system, so it asks a
server of the test, which appends the line.
"""

import http.server
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final, Self

LINES: Final = "lines"
MOUNTED: Final = "/ledger"
"""Where the folder is in a container."""


class Ledger:
    """The ledger of one run, in a folder that every pod mounts; a context manager, because it has a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._file = folder / LINES
        self._file.touch()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def lines(self, pod: str) -> Counter[str]:
        """Return how often each thing was done in a pod, by the words "container what"."""
        said = (line.split(" ", 2) for line in self._file.read_text().splitlines())
        return Counter(words[2] for words in said if words[0] == pod)

    def uids(self) -> dict[str, list[str]]:
        """Return the UIDs of each pod that ran a container, in order."""
        found: dict[str, list[str]] = {}
        for line in self._file.read_text().splitlines():
            pod, uid, _ = line.split(" ", 2)
            if uid != "-" and uid not in found.setdefault(pod, []):
                found[pod].append(uid)
        return found

    def append_command(self, container: str, what: str) -> str:
        """Return the shell command by which a container or its hook says what it does."""
        return f"echo $POD $POD_UID {container} {what} >> {MOUNTED}/{LINES}"

    def asking(self, pod: str, container: str, what: str) -> dict[str, Any]:
        """Return the handler of a hook that runs outside the container."""
        return {
            "httpGet": {"host": "127.0.0.1", "port": self._server.server_port, "path": f"/{pod}/{container}/{what}"}
        }

    def set_flag(self, pod: str, flag: str, *, present: bool = True) -> None:
        """Put or remove a file that a pod waits for: `/ledger/<pod>.<flag>`."""
        file = self.folder / f"{pod}.{flag}"
        if present:
            file.touch()
        else:
            file.unlink()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        lines = self._file

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pod, container, what = self.path.strip("/").split("/")
                with lines.open("a") as file:
                    file.write(f"{pod} - {container} {what}\n")
                self.send_response(http.HTTPStatus.OK)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing to stderr."""

        return Handler
