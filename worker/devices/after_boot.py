"""Judges once more, after a boot, whether pods of the API still have their devices; a pod that has not is rejected for good.

Called by the worker process. The rules are those of admission (devicesToAllocate in pkg/kubelet/cm/devicemanager/manager.go): a kubelet
admits all pods anew that do not run when it starts. It rejects a pod whose plugin has not registered yet; here the plugin is waited
for, five minutes at most. Pods of manifests are left alone, because no controller would replace them. The id of the boot is kept
once all pods are judged: a worker that starts before that judges again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

import structlog

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.pod_snapshot import PodSnapshot
from proto.temporal.hardware.ledger import UNEXPECTED
from proto.temporal.names import API_SOURCE
from proto.temporal.operator import EvictPod
from worker.delivery.pod_requests import BY_THE_NODE, UNANSWERED, PodRequests
from worker.devices.device_manager import unexpected
from worker.devices.of_this_node import NodeDevices
from worker.devices.plugins import STOP_GRACE
from worker.machine.boots import Boots
from workflows.decide.devices.allocation import DevicesUnavailable, NotYetRegistered

AGAIN: Final = 1.0
"""Seconds until a pod is asked again that nobody answered for."""

_log: Final = structlog.get_logger(__name__)


class DevicesAfterBoot:
    """Judges the pods of one node that had devices before the boot."""

    def __init__(
        self,
        devices: NodeDevices,
        boots: Boots,
        requests: PodRequests,
        snapshots: Callable[[], Iterable[PodSnapshot]],
        *,
        grace: timedelta = STOP_GRACE,
    ) -> None:
        """Take what evicts pods, and how long plugins have to register."""
        self._grace = grace.total_seconds()
        self._manager, self._boots = devices.manager, boots
        self._requests, self._snapshots = requests, snapshots
        self._left = set(self._manager.holders()) if boots.is_new else set[str]()
        self._changed = asyncio.Event()
        devices.listed_anew = self._changed.set

    async def run(self) -> None:
        """Judge each pod as soon as the plugins of all its devices have listed them, or are not waited for any more."""
        clock = asyncio.get_running_loop()
        until = clock.time() + self._grace
        while self._left:
            self._changed.clear()
            waits = clock.time() < until
            for uid in sorted(self._left):
                if await self._is_settled(uid, waits=waits):
                    self._left.discard(uid)
            if self._left:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await self._changed.wait()
        await asyncio.to_thread(self._boots.keep)

    async def _is_settled(self, uid: str, *, waits: bool) -> bool:
        try:
            self._manager.refuse_missing(uid)
        except DevicesUnavailable as error:
            if waits and isinstance(error, NotYetRegistered):
                return False
            await self._reject(uid, f"{REJECTED_PREFIX}{unexpected(error)}")
        return True

    async def _reject(self, uid: str, message: str) -> None:
        pod = next((one for one in self._snapshots() if one.uid == uid), None)
        if pod is None or pod.source != API_SOURCE:
            return
        name = f"{pod.namespace}/{pod.name}"
        _log.warning("after a boot this node rejects a pod", pod=name, podUID=uid, reason=UNEXPECTED, err=message)
        asked = EvictPod(BY_THE_NODE, UNEXPECTED, message, disrupts=False)
        while True:
            try:
                rejection = await self._requests.ask(pod.workflow_id, asked)
            except UNANSWERED as error:
                why = str(error) or type(error).__name__
                _log.warning("nobody takes that a pod is rejected; trying again", pod=name, podUID=uid, err=why)
                await asyncio.sleep(AGAIN)
            else:
                if rejection:
                    _log.info("a pod is not rejected", pod=name, podUID=uid, reason=rejection.reason)
                return
