"""Mirror pods: an object in the API for each static pod, which shows the pod and the resources that it uses.

See pkg/kubelet/pod/mirror_client.go and kubelet.go tryReconcileMirrorPods. A mirror pod is created if there is none,
replaced if it mirrors another version of its pod or belongs to another Node object, created again if it is
deleted, and deleted after its static pod. While an edited pod's old version still stops, the API shows that one: the
new version does not run yet. A mirror pod is never run, and static pods never wait for it; while the API server is down
nothing happens here. The worker writes its status (`worker/status/`).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from activities.clients.api_server.errors import ApiRefused
from activities.clients.api_server.resources import PODS
from activities.execution.one_by_one import one_by_one
from proto.cri.ownership import NODE_ANNOTATION
from proto.kubernetes.source_annotations import HASH_ANNOTATION, MIRROR_ANNOTATION
from proto.temporal.pod import PodJson
from worker.poller.calls.reconciler import Reconciler
from worker.poller.cluster.api_pod import ApiPod, read_api_pod
from worker.poller.manifests.static_pod import StaticPod

LOOK_AGAIN: Final = timedelta(seconds=1)
"""While a static pod terminates, after which its mirror pod is deleted or replaced."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CreateMirror:
    """Create the mirror of this pod."""

    pod: StaticPod
    node_uid: str


@dataclass(frozen=True, slots=True)
class DeleteMirror:
    """Delete this mirror."""

    mirror: ApiPod
    why: str


Call = CreateMirror | DeleteMirror


class Writes(Protocol):
    """Writes to the API server."""

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object; raises ApiAway, ApiRefused."""

    async def delete(self, path: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Delete an object; raises ApiAway, ApiRefused."""


@dataclass(frozen=True, slots=True)
class StaticPods:
    """The static pods as known at one moment."""

    desired: Mapping[str, StaticPod]
    """By namespace/name."""
    terminating: frozenset[str]
    """Names of pods that no manifest lists any more and that are not gone yet."""
    complete: bool
    """False if a source could not be read completely, so that no pod counts as unlisted."""
    replaced: frozenset[str] = frozenset()
    """Names of listed pods of which an older version is not gone yet."""
    open_known: bool = True
    """False if `replaced` is not known yet."""


def next_call(name: str, statics: StaticPods, mirror: ApiPod | None, node_uid: str) -> Call | None:
    """Return the call that the mirror of a name needs."""
    pod = statics.desired.get(name)
    if mirror is None:
        return CreateMirror(pod, node_uid) if pod and node_uid and name not in statics.replaced else None
    if pod is None:
        gone = statics.complete and name not in statics.terminating
        return DeleteMirror(mirror, "its static pod is gone") if gone else None
    if mirror.deleted:
        return DeleteMirror(mirror, "it was deleted; creating it again")
    if mirror.mirror != hash_of(pod):
        waits = name in statics.replaced or not statics.open_known
        return None if waits else DeleteMirror(mirror, "it mirrors another version of its static pod")
    if node_uid and mirror.owner_uid != node_uid:
        return DeleteMirror(mirror, "it belongs to another Node object")
    return None


def hash_of(pod: StaticPod) -> str:
    """Return the hash of a static pod's version."""
    return str(pod.pod["metadata"]["annotations"][HASH_ANNOTATION])


def mirror_of(pod: StaticPod, node: str, node_uid: str) -> PodJson:
    """Build the mirror of a static pod."""
    metadata, spec = pod.pod["metadata"], dict(pod.pod["spec"])
    spec.pop("ephemeralContainers", None)
    annotations = {name: value for name, value in metadata["annotations"].items() if name != NODE_ANNOTATION}
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "annotations": annotations | {MIRROR_ANNOTATION: hash_of(pod)},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


class MirrorPods:
    """Makes the calls, one at a time for each name."""

    def __init__(self, api: Writes, node: str, node_uid: Callable[[], str], statics: Callable[[], StaticPods]) -> None:
        """Take the API server, our Node's name and uid, and a function that returns the static pods."""
        self._api, self._node, self._node_uid, self._statics = api, node, node_uid, statics
        self._mirrors: dict[str, ApiPod] | None = None
        self._changed = asyncio.Event()
        self._calls = Reconciler[Call](self)
        self._logged: dict[str, str] = {}

    def set_listed(self, mirrors: Iterable[ApiPod]) -> None:
        """Take all mirror pods that the API has for this node."""
        self._mirrors = {one.full_name: _lean(one) for one in mirrors}
        self._changed.set()

    def set_changed(self, mirror: ApiPod, *, removed: bool = False) -> None:
        """Take one change."""
        if self._mirrors is None:
            return
        if not removed:
            self._mirrors[mirror.full_name] = _lean(mirror)
        elif (known := self._mirrors.get(mirror.full_name)) and known.uid == mirror.uid:
            del self._mirrors[mirror.full_name]
        self._changed.set()

    def look_again(self) -> None:
        """Signal that static pods or the Node may have changed."""
        self._changed.set()

    async def keep(self) -> None:
        """Keep them until cancelled."""
        try:
            while True:
                self._changed.clear()
                pause = self._look()
                try:
                    async with asyncio.timeout(pause):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            await self._calls.close()

    def next_call(self, key: str) -> Call | None:
        """Return the call that a name needs now."""
        if self._mirrors is None:
            return None
        return next_call(key, self._statics(), self._mirrors.get(key), self._node_uid())

    async def make(self, key: str, call: Call) -> None:
        """Make a call, and record its result."""
        assert self._mirrors is not None
        match call:
            case CreateMirror(pod, node_uid):
                body = mirror_of(pod, self._node, node_uid)
                made = read_api_pod(await self._api.create(PODS.path(namespace=pod.namespace), body), datetime.now(UTC))
                self._mirrors[key] = _lean(made)
                _log.info("created a mirror pod", pod=key, podUID=pod.uid)
            case DeleteMirror(mirror, why):
                await self._delete(mirror)
                if (known := self._mirrors.get(key)) and known.uid == mirror.uid:
                    del self._mirrors[key]
                _log.info("deleted a mirror pod", pod=key, why=why)

    def refused(self, key: str, call: Call | None, error: Exception | None) -> None:
        """Log once for each name why its mirror cannot be kept; its pod runs all the same."""
        why = str(error) if error else ""
        if why != self._logged.get(key, "") and call is not None:
            doing = "created" if isinstance(call, CreateMirror) else "deleted"
            _log.error(f"a mirror pod cannot be {doing}; its static pod runs anyway", pod=key, err=why)
        if why:
            self._logged[key] = why
        else:
            self._logged.pop(key, None)

    async def _delete(self, mirror: ApiPod) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": mirror.uid}}
        try:
            await self._api.delete(PODS.path(mirror.name, namespace=mirror.namespace), options)
        except ApiRefused as error:
            if not error.not_found and not error.conflict:
                raise

    def _look(self) -> float | None:
        """Start what is due; returns the seconds until the next look, None if a change is awaited."""
        if (mirrors := self._mirrors) is None:
            return None
        statics = self._statics()
        names, node_uid = {*statics.desired, *mirrors}, self._node_uid()
        for name in names:
            self._calls.changed(name)
        found = one_by_one(
            "mirror pods", names, lambda name: next_call(name, statics, mirrors.get(name), node_uid), name=str
        )
        self._calls.go([name for name, call in found if call])
        ending = statics.terminating & mirrors.keys() or statics.replaced
        return LOOK_AGAIN.total_seconds() if ending else None


def _lean(mirror: ApiPod) -> ApiPod:
    """Drop the pod's JSON, which the static pod holds already."""
    return replace(mirror, pod={})
