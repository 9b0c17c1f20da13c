"""The ledger of CRI calls: what was asked of containerd, when, and how it ended. Written by the proxy, read by the oracle."""

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri

POD_UID: Final = "io.kubernetes.pod.uid"
OK: Final = "OK"
OPEN: Final = "under way"
LONGEST: Final = 200
"""Characters of a command that are kept."""


@dataclass(slots=True)
class Call:
    """One call."""

    method: str
    began: float
    """By the monotonic clock, as `ended`."""
    about: dict[str, Any] = field(default_factory=dict)
    """What of it the oracle asks for: see `subject`."""
    ended: float | None = None
    code: str = OPEN
    """containerd's answer."""
    fault: str = ""
    """What the proxy did to it."""
    made: str = ""
    """The id of the sandbox or container that it created."""


@dataclass(slots=True)
class Ledger:
    """All calls of a scenario, in the order in which they began; used by several threads."""

    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, call: Call) -> Call:
        """Write a call down."""
        with self._lock:
            self.calls.append(call)
        return call

    def of(self, *methods: str, since: int = 0) -> Iterator[Call]:
        """List the calls of some methods that containerd answered with success, without the first `since` calls of any."""
        return (one for one in self.all(*methods, since=since) if one.code == OK)

    def all(self, *methods: str, since: int = 0) -> Iterator[Call]:
        """List the calls of some methods."""
        with self._lock:
            calls = self.calls[since:]
        return (one for one in calls if one.method in methods)

    def write(self, path: Path) -> None:
        """Write it as JSON, one call a line."""
        with self._lock:
            path.write_text("".join(json.dumps(asdict(one), default=str) + "\n" for one in self.calls))


def subject(method: str, request: bytes) -> dict[str, Any]:
    """Read what a call is about: a new method needs no line."""
    match method:
        case "RunPodSandbox":
            meta = cri.RunPodSandboxRequest.FromString(request).config.metadata
            return {"uid": meta.uid, "attempt": meta.attempt}
        case "CreateContainer":
            asked = cri.CreateContainerRequest.FromString(request)
            named = asked.config.metadata
            return {
                "uid": asked.config.labels[POD_UID],
                "name": named.name,
                "attempt": named.attempt,
                "sandbox": asked.pod_sandbox_id,
            }
        case "StopPodSandbox" | "RemovePodSandbox":
            return {"sandbox": cri.StopPodSandboxRequest.FromString(request).pod_sandbox_id}
        case "StopContainer":
            stop = cri.StopContainerRequest.FromString(request)
            return {"container": stop.container_id, "timeout": stop.timeout}
        case "StartContainer" | "RemoveContainer":
            return {"container": cri.StartContainerRequest.FromString(request).container_id}
        case "ExecSync":
            command = cri.ExecSyncRequest.FromString(request)
            return {"container": command.container_id, "command": " ".join(command.cmd)[:LONGEST]}
        case _:
            return {}


def made_by(method: str, answer: bytes) -> str:
    """Read which sandbox or container a call created."""
    match method:
        case "RunPodSandbox":
            return cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id
        case "CreateContainer":
            return cri.CreateContainerResponse.FromString(answer).container_id
        case _:
            return ""
