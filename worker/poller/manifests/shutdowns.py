"""What the poller does about a graceful shutdown of the machine: new pods are refused, and static pods begin again afterwards.

A pod that ended at a shutdown has failed for good. That is right for a pod of the API, which its controller replaces; a static pod has nobody who
does, and a kubelet starts it again after the boot. So does this node, and after a cancelled shutdown, too.
"""

import asyncio
from typing import Final

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import API_SOURCE
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from worker.machine.shutdown_sign import ShutdownSign
from worker.poller.manifests.manifest_pods import Admit, ManifestPods
from worker.poller.runtime.known_pods import KnownPods
from workflows.decide.shutdown.words import MESSAGE, NOT_ADMITTED, REASON

_SOON: Final = 1.0
"""Seconds until it is asked again which pods are open."""


def refusing_at_shutdown(sign: ShutdownSign, admit: Admit | None) -> Admit:
    """Return an admission that refuses pods while the machine shuts down, and else asks `admit`; None admits every pod."""

    async def decide(pod: PodJson, *, static: bool = False) -> Rejected | None:
        why = await admit(pod, static=static) if admit else None
        return why or (NOT_ADMITTED if sign.is_set() else None)

    return decide


def ended_at_shutdown(pod: PodSnapshot) -> bool:
    """Report whether a static pod has ended, or was refused, because the machine went down."""
    ended = (pod.reason == REASON and pod.message.startswith(MESSAGE)) or (
        pod.reason == NOT_ADMITTED.reason and NOT_ADMITTED.message in pod.message
    )
    return ended and pod.source != API_SOURCE and pod.lifecycle == Lifecycle.TERMINATED and not pod.deleting


class StartedAnew:
    """Starts static pods again that a shutdown has ended."""

    def __init__(self, sign: ShutdownSign, known: KnownPods, pods: ManifestPods) -> None:
        self._sign, self._known, self._pods = sign, known, pods

    async def run(self) -> None:
        """Follow shutdowns until cancelled."""
        while not self._pods.complete:  # noqa: ASYNC110 - at the start, until Temporal and the manifests have answered
            await asyncio.sleep(_SOON)
        async for is_set in self._sign.changes():
            if not is_set:
                await self.look()

    async def look(self) -> None:
        """Start those again that have ended by now."""
        known = await asyncio.to_thread(self._known.all)
        if ended := {uid for uid, one in known.items() if ended_at_shutdown(one)}:
            self._pods.start_anew(ended)
