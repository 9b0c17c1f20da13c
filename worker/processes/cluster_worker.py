"""What the worker adds on a node of a cluster: statuses and events to the API, objects from it.

Created and imported only with an API server, so that a standalone node pays nothing for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from temporalio.worker import Interceptor

from activities.clients.api_server.api_server import ApiServer
from activities.clients.csi_drivers import CsiDrivers
from activities.execution.one_by_one import log_bad_item
from activities.objects.tokens import BoundPod
from proto.pod_snapshot import PodSnapshot
from proto.volume_events import VolumeEvent
from worker.api_objects.change_signals import signal_sender
from worker.api_objects.cluster_objects import ClusterObjects
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.delivery.workflow_signals import WorkflowSignals
from worker.devices.of_this_node import NodeDevices
from worker.dra.device_health import PodOf
from worker.dra.of_this_node import NodeClaims
from worker.events.activity_events import ActivityEventInterceptor
from worker.events.event import WARNING, ObjectReference, node_reference
from worker.events.late_ends import LateEnds
from worker.events.pod_events import PodEvents
from worker.events.recorder import EventRecorder, sending_events
from worker.events.volume_events import volume_occurrences
from worker.pod_certificates.issuing import PodCertificates, States
from worker.settings.kubelet.feature_gates import POD_CERTIFICATES_GATE, VERIFICATION_GATE
from worker.status.keeper import StatusKeeper, keeping_statuses
from worker.telemetry.metrics import Metrics

SETTLED_EVERY: Final = 0.1
"""Seconds."""
Publish = Callable[[PodSnapshot], None]


class ClusterWorker:
    """The parts of a worker that use the API server; created on its event loop."""

    def __init__(self, api: ApiServer, config: NodeConfig, metrics: Metrics) -> None:
        cluster = config.cluster
        assert cluster is not None
        self._node = node_reference(config.node_name)
        self.objects = ClusterObjects(api, config.node_name)
        self.claims = NodeClaims(api, config.node_name, config.root_dir, metrics.dra)
        self.keeper = StatusKeeper(api, config.node_name, metrics.pods.status_synced)
        self.events = PodEvents(
            EventRecorder(api, config.node_name, qps=cluster.event_qps, burst=cluster.event_burst),
            config.root_dir,
            checks_rights=config.feature_gates.enabled(VERIFICATION_GATE),
            without_dns=None if config.dns.cluster_dns else self._node,
        )
        is_on = config.feature_gates.enabled(POD_CERTIFICATES_GATE)
        reports = _CertificateReports(self.events.recorder, metrics.pod_certificates.show)
        self.certificates = PodCertificates(api, config.node_name, reports) if is_on else None
        """The certificates of pods; None while the feature gate is off."""
        self.late_ends = LateEnds(self.events.recorder.take)

    @property
    def interceptors(self) -> Sequence[Interceptor]:
        """Interceptors of every activity."""
        return (ActivityEventInterceptor(self.events),)

    def tell_of_node(self, kind: str, reason: str, message: str) -> None:
        """Record an event of the node."""
        self.events.recorder.record(self._node, kind, reason, message)

    def tell_of_volume(self, happened: VolumeEvent) -> None:
        """Record events of a volume: of its pod and its claim."""
        for occurrence in volume_occurrences(happened):
            self.events.recorder.take(occurrence)

    def tell_health_of(self, devices: NodeDevices, pod_of: PodOf, *, with_messages: bool) -> None:
        """Tell the health of devices in the statuses of the pods that have them; drivers' messages only behind their gate."""
        claimed = self.claims.watch_health(pod_of, with_messages=with_messages)
        self.keeper.resource_health += (devices.health, claimed.of)
        devices.health_changed = claimed.changed = self.keeper.look_again

    async def settled(self) -> None:
        """Return when the API has all statuses and events, as far as it takes them."""
        while not (self.keeper.is_settled and self.events.recorder.is_idle):  # noqa: ASYNC110 - two queues, asked once a boot
            await asyncio.sleep(SETTLED_EVERY)

    def observe(self, publish: Publish) -> Publish:
        """Return a publish function that also passes each snapshot to statuses, events and objects.

        It is called inside workflow tasks, so a defect in one of them must not reach the workflow, or the others.
        """
        readers = (publish, self.keeper.publish, self.events.publish, self.late_ends.publish, self.objects.observe)

        def publish_to_all(snapshot: PodSnapshot) -> None:
            for read in readers:
                try:
                    read(snapshot)
                except Exception as error:  # noqa: BLE001 - as above
                    log_bad_item("snapshots of pods", snapshot.uid, error)

        return publish_to_all

    def running(
        self, snapshots: Callable[[], list[PodSnapshot]], signals: WorkflowSignals, drivers: CsiDrivers
    ) -> AbstractAsyncContextManager[None]:
        """Return what runs the loops while its block runs; call it before plugins register, because drivers wait for it.

        `snapshots` returns the newest of all pods, `signals` reach their workflows, `drivers` are listed in the node's
        CSINode.
        """
        self.objects.list_drivers(drivers, partial(self.tell_of_node, WARNING))
        return self._running(snapshots, signals)

    @contextlib.asynccontextmanager
    async def _running(
        self, snapshots: Callable[[], list[PodSnapshot]], signals: WorkflowSignals
    ) -> AsyncIterator[None]:
        known = snapshots()
        self.events.know(known)
        self.late_ends.know(known)
        signals.deliveries.on_change(self.objects.tell_anew)
        send_signal = signal_sender(signals)
        async with contextlib.AsyncExitStack() as parts:
            await parts.enter_async_context(sending_events(self.events.recorder))
            await parts.enter_async_context(in_background("late ends", self.late_ends.run))
            await parts.enter_async_context(keeping_statuses(self.keeper, known))
            await parts.enter_async_context(self.claims.running(snapshots))
            await parts.enter_async_context(self.objects.running(snapshots, send_signal))
            if (certificates := self.certificates) is not None:
                run = partial(certificates.run, snapshots, send_signal)
                await parts.enter_async_context(in_background("certificates of pods", run))
            yield


@dataclass(frozen=True, slots=True)
class _CertificateReports:
    """Events and metrics of the certificates of pods."""

    recorder: EventRecorder
    show_states: Callable[[States], None]

    def warn(self, pod: BoundPod, reason: str, message: str) -> None:
        self.recorder.record(ObjectReference("Pod", pod.name, pod.uid, pod.namespace), WARNING, reason, message)

    def show(self, states: States) -> None:
        self.show_states(states)
