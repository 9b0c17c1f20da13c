"""Finds the pod and the container that a request names.

Used by every endpoint that names a pod. A name from a request's path is only compared with the names in the worker's cache of
this node's pods: it never becomes a path or an id. The pod's status in the API is patched from the same cache, so answers are
as fresh as that.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from activities.logs.runs import statuses_of
from proto.pod_snapshot import FILE_NAME, PodSnapshot, pod_path
from proto.temporal.pod import ContainerState
from worker.api.responses.responses import Refused
from workflows.decide.manifest.fields.field_errors import shortened

_KINDS: Final = ("containers", "initContainers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The pod and container that a request's path names."""

    namespace: str
    pod: str
    uid: str
    container: str

    @classmethod
    def of(cls, request: web.Request) -> "ContainerRequest":
        """Read the path's parameters; those that the route does not have are empty."""
        parameters = request.match_info
        return cls(
            parameters["podNamespace"],
            parameters["podID"],
            parameters.get("uid", ""),
            parameters.get("containerName", ""),
        )


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A pod of this node: its last snapshot, and its object as its source has it."""

    snapshot: PodSnapshot
    pod: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The kubelet's name for it in messages."""
        return f"{self.snapshot.name}_{self.snapshot.namespace}"

    def containers(self) -> dict[str, Mapping[str, Any]]:
        """Return its containers by name; without the pod's object, those in its status."""
        spec = self.pod.get("spec") or {}
        if not spec:
            return statuses_of(self.snapshot.status)
        return {one["name"]: one for kind in _KINDS for one in spec.get(kind) or ()}

    def running(self, container: str) -> str:
        """Return the id of a running container, or ""."""
        found = self.snapshot.containers.get(container)
        return found.container_id if found is not None and found.state == ContainerState.RUNNING else ""


def quoted(name: str) -> str:
    """Quote a client's text for use in a message, shortened."""
    return json.dumps(shortened(name))


async def find_pod(root_dir: Path, asked: ContainerRequest, unknown: str = "pod does not exist") -> FoundPod:
    """Find the pod; of several with one name (one terminates, its successor waits) the newest. Raises Refused with `unknown`."""
    found = await asyncio.to_thread(_newest, root_dir, asked)
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, unknown)
    return found


def _newest(root_dir: Path, asked: ContainerRequest) -> FoundPod | None:
    snapshots = [one for one in _named(root_dir, asked) if (one.namespace, one.name) == (asked.namespace, asked.pod)]
    if asked.uid:
        snapshots = [one for one in snapshots if one.uid == asked.uid]
    if not snapshots:
        return None
    newest = max(snapshots, key=lambda one: one.started_at)
    try:
        pod = json.loads(pod_path(root_dir, newest.uid).read_bytes())
    except (OSError, ValueError):
        pod = {}
    return FoundPod(newest, pod if isinstance(pod, dict) else {})


def _named(root_dir: Path, asked: ContainerRequest) -> Iterator[PodSnapshot]:
    """Yield the snapshots with that name; others are skipped by their text, without parsing all 110."""
    name = f'"namespace":{json.dumps(asked.namespace)},"name":{json.dumps(asked.pod)},'.encode()
    for path in root_dir.glob(f"pods/*/{FILE_NAME}"):
        try:
            data = path.read_bytes()
            if name in data:
                yield PodSnapshot.from_json(data)
        except (OSError, ValueError, TypeError):
            continue  # being replaced or already removed: the next relist finds the pod
