"""Keeps the status of every pod of this node in the API in sync with its workflow.

It takes the snapshots that workflows publish, from any thread and without blocking; the newest counts. A patch is sent if, and
only if, the API's status differs: after a snapshot, after another client's write, after a restart of the worker or an outage of
the API server, for as long as it takes. It is not a step of a workflow: readiness of a healthy pod may change without an event
in history, and a pod's life never waits for the API server.
"""

import asyncio
import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.resources import PODS
from activities.execution.one_by_one import one_by_one
from activities.objects.pod_objects import ObjectState
from proto.pod_snapshot import PodSnapshot, is_over
from proto.temporal.names import API_SOURCE
from proto.temporal.pod import Lifecycle, PodKey
from worker.daemon.loop_restarts import restart_on_error
from worker.status.api_pods import ApiPod, ApiPods, Name
from worker.status.circuit_breaker import CircuitBreaker
from worker.status.merge import merge_status
from worker.status.patch import status_patch
from worker.status.queue import WorkQueue
from worker.status.urgency import is_urgent

AT_ONCE: Final = 8
"""Concurrent patches: a burst of 110 pods takes a fraction of a second and does not flood the API server."""
LONGEST_REFUSAL: Final = 60.0
"""Maximum seconds between tries for a pod whose status is refused."""
LONGEST_FAILURE: Final = 10.0
"""The same if the server fails, as with a webhook or its etcd; the kubelet retries as often."""
COALESCE_SECONDS: Final = 0.25
"""Seconds that a status which is not urgent is delayed; the kubelet looks at a starting pod once a second."""
REMEMBERED: Final = 1000
"""Deleted pods whose workflows may still publish."""
UNRELATED: Final = "no relationship found between node"
"""The node authorizer's message for a pod that it does not know on this node, as one that is deleted."""
MAYBE_ANOTHER_UID: Final = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Responses to a patch with another UID; the second from a server that treats it as a change of an immutable field."""

ResourceHealth = Callable[[str, str], Sequence[Mapping[str, Any]]]

_log: Final = structlog.get_logger(__name__)


@dataclass(slots=True)
class DesiredStatus:
    """The desired status of one pod."""

    pod: PodKey
    own_object: bool
    """It came from the API; otherwise a mirror pod represents it there."""
    status: Mapping[str, Any]
    """The snapshot's own status, never changed here."""
    stopped: bool
    last: bool = False
    """No status follows it."""
    absent: bool = False
    """The API has no such pod: it was deleted by force, or the API lost it and may have it again."""
    refusals: int = 0
    since: float | None = field(default_factory=monotonic)
    """When the status changed that the API does not have yet; None: it has the newest."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class StatusKeeper:
    """Writes statuses to the API server; `publish` may be called from any thread, the rest from one event loop."""

    def __init__(self, api: ApiServer, node_name: str, synced: Callable[[float], None] = lambda _: None) -> None:
        """Take the API, the node, and what takes the seconds that a status took to the API."""
        self._api, self._synced = api, synced
        self._pods = ApiPods(api, node_name, self._changed)
        self._desired: dict[str, DesiredStatus] = {}
        self._uids: dict[Name, set[str]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._queue: WorkQueue[str] = WorkQueue()
        self._breaker = CircuitBreaker()
        self._arrived: dict[str, PodSnapshot] = {}
        self.resource_health: list[ResourceHealth] = []
        """Each tells the health of what a container has by its pod's uid and its name: entries of `allocatedResourcesStatus`."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def publish(self, snapshot: PodSnapshot) -> None:
        """Take a snapshot; returns at once."""
        with self._lock:
            idle, self._arrived[snapshot.uid] = not self._arrived, snapshot
            loop = self._loop
        if idle and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: the next worker compares everything
                loop.call_soon_threadsafe(self._take_arrived)

    async def keep(self, known: Iterable[PodSnapshot] = ()) -> None:
        """Work until cancelled; `known` are the snapshots of an earlier worker, which are compared with the API again."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._arrived = {one.uid: one for one in known} | self._arrived
        self._take_arrived()
        async with asyncio.TaskGroup() as group:
            group.create_task(restart_on_error("statuses of pods", self._pods.follow))
            for _ in range(AT_ONCE):
                group.create_task(restart_on_error("patches of statuses", self._work))

    async def write_last(self, pod: PodKey, status: Mapping[str, Any]) -> ObjectState:
        """Write a pod's final status now; raises ApiAway, ApiRefused. Later snapshots of it are ignored."""
        if pod.uid in self._gone:
            return ObjectState.GONE
        desired = self._desired.setdefault(pod.uid, DesiredStatus(pod, own_object=True, status={}, stopped=True))
        self._uids.setdefault(_name(pod), set()).add(pod.uid)
        desired.status, desired.stopped, desired.last = status, True, True
        async with desired.lock:
            current = await self._write(desired)
            if current is not None and not current.deleting:  # the watch may lag behind
                current = await self._read(pod)
        if current is None:
            self._forget(pod.uid)
            return ObjectState.GONE
        return ObjectState.DELETING if current.deleting else ObjectState.WANTED

    @property
    def is_settled(self) -> bool:
        """Whether the API has every status, as far as this is known and the API has its pod."""
        with self._lock:
            if self._arrived:
                return False
        return not any(self._differs(one) for one in self._desired.values())

    def _differs(self, desired: DesiredStatus) -> bool:
        current = self._pods.get(_name(desired.pod))
        if desired.absent or current is None or not current.stands_for(desired.pod.uid):
            return False
        return status_patch(current.uid, current.status, self._merged(current, desired)) is not None

    def _merged(self, current: ApiPod, desired: DesiredStatus) -> dict[str, Any]:
        mirror = bool(current.mirror_of)
        return merge_status(current.status, self._shown(desired), stopped=desired.stopped, mirror=mirror)

    def look_again(self, uids: Iterable[str]) -> None:
        """Compare the statuses of these pods again, because the health of what they have has changed."""
        for uid in uids:
            if uid in self._desired:
                self._ask(uid)

    def _shown(self, desired: DesiredStatus) -> Mapping[str, Any]:
        """Return the status with the health of what the containers have (UpdateAllocatedResourcesStatus)."""
        if not self.resource_health:
            return desired.status
        shown, found = [], False
        for one in desired.status.get("containerStatuses") or ():
            health = [entry for told in self.resource_health for entry in told(desired.pod.uid, one["name"])]
            shown.append({**one, "allocatedResourcesStatus": health} if health else one)
            found = found or bool(health)
        return {**desired.status, "containerStatuses": shown} if found else desired.status

    def forget(self, pod: PodKey) -> None:
        """Note that a pod's object is deleted, and ignore later snapshots of it."""
        if (current := self._pods.get(_name(pod))) is not None and current.uid == pod.uid:
            self._pods.drop(current)
        self._forget(pod.uid)

    def _take_arrived(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, {}
        list(one_by_one("statuses of pods", arrived.values(), self._take, lambda one: one.uid))

    def _take(self, snapshot: PodSnapshot) -> None:
        uid = snapshot.uid
        self._want(snapshot)
        if uid in self._desired:
            self._ask(uid)
        if is_over(snapshot) and snapshot.source != API_SOURCE:
            self._drop(uid)  # its mirror pod is deleted with it; the same manifest would have the same UID again

    def _want(self, snapshot: PodSnapshot) -> None:
        known = self._desired.get(snapshot.uid)
        if snapshot.uid in self._gone or (known is not None and known.last):
            return
        pod = PodKey(snapshot.namespace, snapshot.name, snapshot.uid)
        # the API frees the devices of a claim once its pod has a final phase (kubelet.go PodCouldHaveRunningContainers)
        stopped = snapshot.lifecycle == Lifecycle.TERMINATED and not snapshot.may_have_claims
        if known is None:
            own = snapshot.source == API_SOURCE
            self._desired[pod.uid] = DesiredStatus(pod, own, snapshot.status, stopped)
            self._uids.setdefault(_name(pod), set()).add(pod.uid)
            return
        if known.since is None and known.status != snapshot.status:
            known.since = monotonic()
        known.status, known.stopped, known.refusals = snapshot.status, stopped, 0

    def _changed(self, name: Name) -> None:
        """Compare again what another client has changed; the API server answers, so nothing has to wait any longer."""
        self._breaker.reset()
        current = self._pods.get(name)
        for uid in tuple(self._uids.get(name, ())):
            desired = self._desired[uid]
            desired.absent = desired.own_object and (current is None or current.uid != uid)
            self._ask(uid)

    def _ask(self, uid: str) -> None:
        """Queue a pod's status: at once if it is urgent, else after a delay that combines it with what follows."""
        desired = self._desired[uid]
        if desired.absent:
            return
        current = self._pods.get(_name(desired.pod))
        if current is not None and is_urgent(current.status, desired.status):
            self._queue.add(uid)
        else:
            self._queue.add_after(uid, COALESCE_SECONDS)

    def _drop(self, uid: str) -> DesiredStatus | None:
        """Stop keeping a status; returns what was desired."""
        desired = self._desired.pop(uid, None)
        if desired is not None:
            uids = self._uids.get(_name(desired.pod), set())
            uids.discard(uid)
            if not uids:
                self._uids.pop(_name(desired.pod), None)
        return desired

    def _forget(self, uid: str) -> None:
        """Stop keeping a status, and ignore later snapshots."""
        if self._drop(uid) is not None:
            self._gone[uid] = None
        while len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    async def _work(self) -> None:
        await self._pods.listed.wait()
        while True:
            uid = await self._queue.get()
            try:
                async with self._breaker.call():
                    await self._sync(uid)
            finally:
                self._queue.done(uid)

    async def _sync(self, uid: str) -> None:
        """Write one pod's status, or arrange for a retry."""
        desired = self._desired.get(uid)
        if desired is None or desired.last:  # the caller of write_last writes and retries the last one
            return
        try:
            async with desired.lock:
                if not desired.last:
                    status = desired.status
                    if await self._write(desired) is not None:
                        self._note_synced(desired, status)
            self._breaker.reset()
        except ApiAway as error:
            if error.status == HTTPStatus.INTERNAL_SERVER_ERROR and not error.retry_after:
                self._breaker.reset()
                self._retry_later(desired, error, LONGEST_FAILURE)
            else:
                self._breaker.trip(error)
                self._queue.add(uid)
        except Exception as error:  # noqa: BLE001 - a refusal, or a defect
            if isinstance(error, ApiRefused):
                self._breaker.reset()
            self._retry_later(desired, error, LONGEST_REFUSAL)

    def _note_synced(self, desired: DesiredStatus, status: Mapping[str, Any]) -> None:
        """Tell how long a status took, unless another one has followed."""
        if desired.since is not None and desired.status == status:
            self._synced(monotonic() - desired.since)
            desired.since = None

    def _retry_later(self, desired: DesiredStatus, error: Exception, longest: float) -> None:
        """Retry one pod's status after a growing pause, which delays no other."""
        pause = min(2.0**desired.refusals, longest)
        desired.refusals = min(desired.refusals + 1, 10)
        _log.warning(
            "a pod's status cannot be written, retrying",
            pod=str(desired.pod),
            podUID=desired.pod.uid,
            err=str(error) or type(error).__name__,
            seconds=pause,
        )
        self._queue.add_after(desired.pod.uid, pause)

    async def _write(self, desired: DesiredStatus) -> ApiPod | None:
        """Patch what differs; returns the object afterwards, None if it does not exist."""
        current = self._pods.get(_name(desired.pod))
        if current is None or not current.stands_for(desired.pod.uid):
            if not desired.own_object:
                return None  # the watch will report its mirror pod
            current = await self._read(desired.pod)
        if current is None:
            desired.absent = True
            return None
        patch = status_patch(current.uid, current.status, self._merged(current, desired))
        if patch is None:
            return current
        try:
            answer = await self._api.patch(PODS.path(current.name, namespace=current.namespace, sub="status"), patch)
        except ApiRefused as error:
            if not await self._is_gone(current, error):
                raise
            desired.absent = desired.own_object
            return None
        written = ApiPod.of(answer)
        self._pods.refresh(written)
        return written

    async def _read(self, pod: PodKey) -> ApiPod | None:
        """Read a pod's object; None if there is none, or another one of that name."""
        try:
            current = ApiPod.of(await self._api.get(PODS.path(pod.name, namespace=pod.namespace)))
        except ApiRefused as error:
            if error.not_found or self._is_unbound(error):
                return None
            raise
        if current.uid != pod.uid:
            return None
        self._pods.refresh(current)
        return current

    def _is_unbound(self, refused: ApiRefused) -> bool:
        """Report whether a pod may not be read because it is not bound to this node, or is deleted."""
        return refused.status == HTTPStatus.FORBIDDEN and UNRELATED in str(refused) and self._pods.listed.is_set()

    async def _is_gone(self, current: ApiPod, refused: ApiRefused) -> bool:
        """Report whether a patch was refused because its object is gone; if so, drop it."""
        if not refused.not_found:
            if refused.status not in MAYBE_ANOTHER_UID:
                return False
            if await self._read(PodKey(current.namespace, current.name, current.uid)) is not None:
                return False
        self._pods.drop(current)
        return True


@contextlib.asynccontextmanager
async def keeping_statuses(keeper: StatusKeeper, known: Iterable[PodSnapshot]) -> AsyncIterator[None]:
    """Keep statuses while the block runs."""
    keeping = asyncio.create_task(keeper.keep(known), name="statuses of pods")
    try:
        yield
    finally:
        keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping


def _name(pod: PodKey) -> Name:
    return pod.namespace, pod.name
