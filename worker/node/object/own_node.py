"""Keeps the Node object up to date: registers it, watches it and patches its status.

A part of the node process. The status is computed every nodeStatusUpdateFrequency and whenever readiness changes. It is sent if
anything but the heartbeat time changed, and every nodeStatusReportFrequency anyway (pkg/kubelet/kubelet_node_status.go). Unlike
with the kubelet, a deleted object is created again at once, not on the next restart.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

import structlog

from activities.clients.api_server.api_server import ApiAway, ApiRefused, Json
from activities.clients.api_server.reflector import Listed, Reflector
from activities.clients.api_server.resources import NODES
from worker.machine.monotonic_clock import monotonic_now
from worker.node.object.conditions import NodeEvent, is_ready
from worker.node.object.patch import changed, node_patch
from worker.node.object.registration import initial_node, reconcile
from worker.node.object.status import NodeFacts, NodeSettings, current_node
from worker.node.process.dependencies import NodeDependencies

TRIES: Final = 5
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 7.0
JITTER: Final = 0.04
LOOP: Final = "node status"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NodeCallbacks:
    """What the Node object needs from the other parts of the process."""

    facts: Callable[[], Awaitable[NodeFacts]]
    """Returns the current facts about this machine."""
    events: Callable[[Sequence[NodeEvent]], None]
    """Called with events of the node."""
    pod_cidrs: Callable[[Sequence[str]], None]
    """Called with the pod CIDRs that the cluster assigned."""
    sync_now: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to compute the status now instead of at the next interval."""
    volumes_reported: Callable[[Sequence[str]], Awaitable[None]] | None = None
    """Called with the volumes that the API server knows to be in use, after each look at the status."""


class OwnNode:
    """This machine's Node."""

    def __init__(self, deps: NodeDependencies, settings: NodeSettings, callbacks: NodeCallbacks) -> None:
        self._deps, self._settings, self._callbacks = deps, settings, callbacks
        self._api, self._cluster = deps.api, deps.cluster
        self._path = NODES.path(settings.name)
        self._status_path = NODES.path(settings.name, sub="status")
        self._reported: datetime | None = None  # by the monotonic clock
        self._delay = timedelta()
        self._trouble = ""
        self.json: Json | None = None
        """The last known object; None if it does not exist or was not read yet."""
        self._cordoned: bool | None = None
        """Whether the Node was unschedulable when an event last said so, or when it was first seen; None before.

        `json` may be newer: it is also taken from the answers to our own requests.
        """

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        await self._register()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._report())

    async def _report(self) -> None:
        every = self._cluster.status_every
        while True:
            self._callbacks.sync_now.clear()
            self._deps.health.turn(LOOP, every)
            if self.json is None:
                await self._register()
            await self._sync()
            if self._callbacks.volumes_reported and self.json is not None:
                await self._callbacks.volumes_reported((self.json.get("status") or {}).get("volumesInUse") or ())
            pause = every.total_seconds() * random.uniform(1, 1 + JITTER)  # noqa: S311 - no secret
            await _until(self._callbacks.sync_now, pause)

    async def _watch(self) -> None:
        selector = f"metadata.name={self._settings.name}"
        reflector = Reflector(self._api, NODES.path(), what="our own Node", field_selector=selector)
        async for news in reflector.changes():
            if isinstance(news, Listed):
                self._observe(next(iter(news.items), None))
            else:
                self._observe(None if news.type == "DELETED" else news.object)

    def _observe(self, node: Json | None) -> None:
        before = self.json
        if node is not None and before is not None and _is_older(node, before):
            return  # the watch lags behind the response to our own patch
        self.json = node
        self._callbacks.pod_cidrs((node or {}).get("spec", {}).get("podCIDRs") or ())
        if node is None:
            log.warning("the node's object is gone from the API server", node=self._settings.name)
            self._reported = self._cordoned = None
            self._callbacks.sync_now.set()
        else:
            self._tell_schedulable(node)

    def _tell_schedulable(self, node: Json) -> None:
        before, self._cordoned = self._cordoned, _unschedulable(node)
        if before is not None and before != self._cordoned:
            self._callbacks.events([NodeEvent("NodeNotSchedulable" if self._cordoned else "NodeSchedulable")])

    async def _register(self) -> None:
        """Create the object, or adopt the existing one; retried until it succeeds. Without registerNode, only the latter."""
        pause = FIRST_PAUSE
        while True:
            self._deps.health.turn(LOOP, self._cluster.status_every)
            self._deps.metrics.node_registering()
            try:
                self.json = await (self._create() if self._cluster.register else self._read())
            except (ApiAway, ApiRefused) as error:
                self._log_change(f"node {self._settings.name} is not registered: {_message(error)}")
            else:
                self._log_change("")
                self._tell_schedulable(self.json)
                self._deps.metrics.node_registered()
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _create(self) -> Json:
        facts = await self._callbacks.facts()
        initial = initial_node(self._settings.name, self._cluster, facts.machine.architecture)
        node, events = current_node(initial, self._settings, facts, datetime.now(UTC))
        try:
            made = await self._api.create(NODES.path(), node)
        except ApiRefused as error:
            if error.status not in {HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN}:
                raise
            refused = error
        else:
            log.info("node registered", node=self._settings.name)
            self._callbacks.events(events)
            return made
        try:
            existing = await self._read()
        except ApiRefused as error:
            raise refused from error  # why it was not created is more useful than that it does not exist
        wanted = reconcile(existing, initial)
        if changed(existing, wanted):
            existing = await self._api.patch(self._status_path, node_patch(existing, wanted))
        log.info("node was already registered", node=self._settings.name)
        return existing

    async def _read(self) -> Json:
        return await self._api.get(self._path)

    async def _sync(self) -> None:
        """Send the status if it is due or changed; a failure is retried at once, then at the next interval."""
        for attempt in range(TRIES):
            try:
                if attempt:
                    self.json = await self._read()
                await self._send()
            except ApiRefused as error:
                if error.not_found:
                    self._observe(None)
                    return
                self._log_change(f"the node's status cannot be written: {_message(error)}")
            except ApiAway as error:
                self._log_change(f"the node's status cannot be written: {_message(error)}")
                if error.retry_after:
                    return
            else:
                self._log_change("")
                return

    async def _send(self) -> None:
        facts = await self._callbacks.facts()
        node, now = self.json, monotonic_now()
        if node is None:  # deleted meanwhile
            self._callbacks.sync_now.set()
            return
        wanted, events = current_node(node, self._settings, facts, datetime.now(UTC))
        differs = changed(node, wanted)
        if not differs and self._reported and now - self._reported < self._cluster.report_every + self._delay:
            return
        self._delay = self._random_delay() if differs or self._reported is None else timedelta()
        answer = await self._api.patch(self._status_path, node_patch(node, wanted))
        if self.json is None:  # deleted while the request was in progress, so it is to be created at once
            return
        self.json, self._reported = self.json if _is_older(answer, self.json) else answer, now
        if is_ready(answer):
            self._deps.metrics.node_ready()
        if is_ready(answer) != is_ready(node):
            log.info("node is ready" if is_ready(answer) else "node is not ready", why=_why(answer))
        self._callbacks.events(events)

    def _random_delay(self) -> timedelta:
        """Return a random offset, which spreads the reports of nodes that changed at the same time."""
        return self._cluster.report_every * random.uniform(-0.5, 0.5)  # noqa: S311 - no secret

    def _log_change(self, trouble: str) -> None:
        """Log an error if it is new, and once that it is over."""
        if trouble == self._trouble:
            return
        if trouble:
            log.error(trouble)
        else:
            log.info("the API server accepts the node's status again", node=self._settings.name)
        self._trouble = trouble
        self._deps.service.status(trouble or f"node {self._settings.name}")


def _message(error: Exception) -> str:
    return f"{error.status} {error.reason}: {error}" if isinstance(error, ApiRefused) else str(error)


def _is_older(one: Json, other: Json) -> bool:
    """Report whether one is an earlier version of the same object; resource versions are increasing numbers (KEP-5504)."""
    mine, known = one["metadata"], other["metadata"]
    if mine.get("uid") != known.get("uid"):
        return False
    versions = [str(each.get("resourceVersion", "")) for each in (mine, known)]
    return all(each.isdecimal() for each in versions) and int(versions[0]) < int(versions[1])


def _unschedulable(node: Json) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _why(node: Json) -> str:
    return next((one["message"] for one in node["status"]["conditions"] if one["type"] == "Ready"), "")


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event or a timeout."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
