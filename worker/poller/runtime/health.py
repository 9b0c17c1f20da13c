"""Whether the node's runtime answers and is ready, and the file that reports it.

After a failed call the runtime's Status is requested every five seconds (the kubelet's interval) until it is ready.
Changes are logged and written to `<root-dir>/tempolet/runtime.json`. A ready runtime is only checked once a minute, by
the listing.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from proto.cri.v1 import api_pb2 as cri
from proto.node_runtime import NodeRuntime, write_node_runtime

CHECK: Final = timedelta(seconds=5)
RUNTIME_READY: Final = "RuntimeReady"
NETWORK_READY: Final = "NetworkReady"
AWAY: Final = "RuntimeAway"

_log: Final = structlog.get_logger(__name__)


class RuntimeHealth:
    """The last known state of the runtime."""

    def __init__(self, client: RuntimeClient, root_dir: Path, changed: Callable[[NodeRuntime], None]) -> None:
        self._client = client
        self._root_dir = root_dir
        self._changed = changed
        self._check_soon = asyncio.Event()
        self._check_soon.set()
        self.known: NodeRuntime | None = None

    def check_soon(self) -> None:
        """Record that a call failed: check soon."""
        self._check_soon.set()

    async def watch(self) -> None:
        """Check after every failed call, until the runtime is ready."""
        while True:
            await self._check_soon.wait()
            self._check_soon.clear()
            while not (found := await self.check()).ready or not found.network_ready:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CHECK.total_seconds()):
                        await self._check_soon.wait()
                self._check_soon.clear()

    async def check(self) -> NodeRuntime:
        """Check now."""
        try:
            version, status = await self._client.version(), await self._client.status()
        except CriError as error:
            found = NodeRuntime(
                ready=False,
                network_ready=False,
                endpoint=self._client.endpoint,
                reason=AWAY,
                message=f"no container runtime answers at {self._client.endpoint} ({error.details}); pods keep their state "
                "and continue when it is back",
            )
        else:
            found = _read_status(self._client.endpoint, version, status)
        self._note(found)
        return found

    def set_end_detection(self, how: str) -> None:
        """Record how ends of containers are detected now."""
        if self.known and self.known.events != how:
            self.known = replace(self.known, events=how)
            self._write()

    def _note(self, found: NodeRuntime) -> None:
        before = self.known
        if before and replace(found, since=before.since, events=before.events) == before:
            return
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self.known = replace(found, since=since, events=before.events if before else "")
        self._write()
        if found.ready and found.network_ready:
            _log.info("the container runtime is ready", runtime=found.name, version=found.version)
        else:
            _log.warning("the container runtime is not ready", reason=found.reason, err=found.message)
        self._changed(self.known)

    def _write(self) -> None:
        try:
            if self.known:
                write_node_runtime(self._root_dir, self.known)
        except OSError as error:
            _log.warning("could not write the runtime's state for `tempolet pods`", err=str(error))


def _read_status(endpoint: str, version: cri.VersionResponse, status: cri.RuntimeStatus) -> NodeRuntime:
    conditions = {one.type: one for one in status.conditions}
    bad = [
        conditions[kind]
        for kind in (RUNTIME_READY, NETWORK_READY)
        if kind in conditions and not conditions[kind].status
    ]
    return NodeRuntime(
        ready=all(one.type != RUNTIME_READY for one in bad),
        network_ready=not bad,
        endpoint=endpoint,
        reason=bad[0].reason if bad else "",
        message="; ".join(one.message for one in bad),
        name=version.runtime_name,
        version=version.runtime_version,
    )
