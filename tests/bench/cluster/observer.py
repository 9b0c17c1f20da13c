"""Observes in the API when a pod is first Running, and when its object is gone; the same for all peers.

It watches in a thread; times are those of the events' arrival, so the delay to the observer is the same for both agents.
"""

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.bench.cri import LONGEST, TooSlow
from tests.bench.manifests import NAMESPACE
from tests.cluster.control_plane import ControlPlane

WATCH_SECONDS: Final = 24 * 3600


class ApiObserver:
    """Watches all pods of the benchmark's namespace."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._running: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._version = "0"
        self._connection = self._connect()
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing = True
        if self._connection.sock:
            self._connection.sock.close()

    def running(self, name: str, within: float = LONGEST) -> float:
        """Wait until the API shows a pod running with all containers ready; returns the time. Raises TooSlow."""
        return self._until(lambda: self._running.get(name), within, f"{name} is not Running in the API")

    def gone(self, name: str, within: float = LONGEST) -> float:
        """Wait until a pod is gone from the API; returns the time. Raises TooSlow."""
        return self._until(lambda: self._gone.get(name), within, f"{name} is still in the API")

    def all_running(self, prefix: str, count: int, within: float) -> float:
        """Wait until this many pods with this name prefix run; returns the time of the last. Raises TooSlow."""

        def last() -> float | None:
            found = [at for name, at in self._running.items() if name.startswith(prefix)]
            return max(found) if len(found) >= count else None

        return self._until(last, within, f"not {count} pods of {prefix} Running in the API")

    def _until(self, found: Callable[[], float | None], within: float, otherwise: str) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, within):
                raise TooSlow(f"{otherwise} after {within:.0f} s")
            at = found()
        assert at is not None
        return at

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self._plane.pki / "ca.crt"))
        context.load_cert_chain(self._plane.pki / "admin.crt", self._plane.pki / "admin.key")
        connection = http.client.HTTPSConnection("127.0.0.1", self._plane.port, context=context)
        query = f"watch=true&resourceVersion={self._version}&timeoutSeconds={WATCH_SECONDS}"
        connection.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{query}")
        return connection

    def _follow(self) -> None:
        while not self._closing:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                for line in self._connection.getresponse():
                    self._take(json.loads(line))
            if not self._closing:  # the API server ends the watch of a client that is too slow
                self._connection = self._connect()

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise TooSlow(f"the watch of the bench cannot go on: {event['object'].get('message')}")
        now, name = time.time(), event["object"]["metadata"]["name"]
        self._version = event["object"]["metadata"]["resourceVersion"]
        with self._changed:
            if event["type"] == "DELETED":
                self._gone.setdefault(name, now)
            elif _runs(event["object"].get("status") or {}):
                self._running.setdefault(name, now)
            self._changed.notify_all()


def _runs(status: Mapping[str, Any]) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return status.get("phase") == "Running" and ready
