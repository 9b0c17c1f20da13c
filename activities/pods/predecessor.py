"""Ensures that only one pod of a name runs: an edited static manifest has a new UID, and the old pod must be gone first.

AwaitPredecessor waits for that. RunPodSandbox checks again under a lock, because two successors may have waited side
by side. A predecessor is whatever the runtime holds under the same namespace and name, or a pod of that name with an
older snapshot on the node: it may not have a sandbox yet.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from temporalio import activity

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.execution.errors import runtime_failure
from activities.execution.heartbeat import heartbeating
from activities.pods.services import PodServices
from activities.runtime.runtime_facts import READ_FAILED
from proto.cri.labels import POD_NAME, POD_NAMESPACE, POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot, read_snapshots
from proto.temporal import names
from proto.temporal.activities.requests import AwaitPredecessor
from proto.temporal.pod import Lifecycle, PodKey

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5


class PredecessorActivities:
    """The wait before a pod's first step."""

    def __init__(self, services: PodServices) -> None:
        self._services = services

    @activity.defn(name=names.AWAIT_PREDECESSOR)
    async def await_predecessor(self, request: AwaitPredecessor) -> None:
        """Return once no other pod of this namespace and name is left on the node."""
        pause = _FIRST_PAUSE
        async with heartbeating(f"look for a predecessor of {request.pod}") as heart:
            while uid := await self._predecessor(request.pod):
                heart.say(f"wait until the predecessor {uid} of {request.pod} is gone")
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def _predecessor(self, pod: PodKey) -> str | None:
        try:
            sandboxes, containers = await list_of_full_name(self._services.runtime, pod)
        except CriError as error:
            doing = f"look for a predecessor of {pod}"
            raise runtime_failure(error, self._services.runtime.endpoint, READ_FAILED, doing) from error
        if uid := other_uid(pod, sandboxes, containers):
            return uid
        snapshots = await asyncio.to_thread(read_snapshots, self._services.settings.root_dir)
        return older_snapshot(pod, snapshots)


async def list_of_full_name(
    runtime: RuntimeClient, pod: PodKey
) -> tuple[Sequence[cri.PodSandbox], Sequence[cri.Container]]:
    """List what the runtime holds under a pod's namespace and name, of any UID. Raises CriError."""
    labels = {POD_NAMESPACE: pod.namespace, POD_NAME: pod.name}
    return await asyncio.gather(runtime.list_pod_sandbox(labels), runtime.list_containers(labels))


def other_uid(pod: PodKey, sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container]) -> str | None:
    """Return the UID of another pod that has a sandbox or container under the same name, or None."""
    for labels in (*(one.labels for one in sandboxes), *(one.labels for one in containers)):
        uid = labels.get(POD_UID, "")
        if uid and uid != pod.uid:
            return uid
    return None


def older_snapshot(pod: PodKey, snapshots: Iterable[PodSnapshot]) -> str | None:
    """Return the UID of a pod of this name that started before ours and is not terminated, or None."""
    same_name = [one for one in snapshots if (one.namespace, one.name) == (pod.namespace, pod.name)]
    own = next((_started(one) for one in same_name if one.uid == pod.uid), None)
    for other in same_name:
        if other.uid == pod.uid or other.lifecycle == Lifecycle.TERMINATED:
            continue
        started = _started(other)
        if started is not None and (own is None or started < own):
            return other.uid
    return None


def _started(snapshot: PodSnapshot) -> datetime | None:
    return datetime.fromisoformat(snapshot.started_at) if snapshot.started_at else None
