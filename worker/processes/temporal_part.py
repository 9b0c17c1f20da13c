"""The worker process's part in Temporal: who leads its pods, the SDK's worker while Temporal answers, and signals to workflows.

Wires `hosting.py`, `before_polling.py` and `pod_leads.py` with each other. What needs no Temporal is in `upkeep.py`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from activities.node_services import NodeServices
from proto.temporal.names import node_workflow_id
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import TEMPORAL, NodeClient
from worker.daemon.service import Service
from worker.delivery.task_timeouts import task_timeout
from worker.delivery.workflow_signals import SENDER, WorkflowSignals
from worker.devices.plugins import DevicePlugins
from worker.host.current_readiness import CurrentReadiness
from worker.host.pod_cache import PodCache, publishing
from worker.host.replays.replay_check import REPLAYS, CheckDependencies, ReplayCheck
from worker.host.temporal.node_name import NodeName
from worker.host.temporal.refused_runs import RefusedRuns, ending_refused_runs
from worker.processes.before_polling import BeforePolling, Phase
from worker.processes.hosting import Hosting, HostingDependencies
from worker.processes.pod_leads import LeadDependencies, PodLeads
from worker.processes.sdk_worker import pod_worker
from worker.stand_in.hand_back.handing_back import HandingBack
from worker.telemetry.process import Telemetry
from worker.telemetry.process_state import PROCESS, state_of
from worker.telemetry.workflow_engine import WORKFLOW_ENGINE, as_text
from worker.temporal.call_budget import CallBudget
from worker.temporal.keys import KeyFile
from worker.temporal.signal_numbers import signal_numbers
from worker.tickets.gate import Refusals
from worker.tickets.guard import TicketGuard
from worker.tickets.seal import TicketSeal
from worker.tickets.tickets import Tickets

LEADS: Final = "leads"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What the worker process has before it has anything of Temporal."""

    config: NodeConfig
    node: NodeClient
    service: Service
    telemetry: Telemetry
    services: NodeServices
    device_plugins: DevicePlugins
    cache: PodCache
    readiness: CurrentReadiness
    """Takes each snapshot."""
    tickets: Tickets
    interceptors: Sequence[Interceptor]
    """Of each work of an activity, besides those of every node."""


class TemporalPart:
    """The part of one worker process."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts, self._budget, self.phase = parts, CallBudget(), Phase()
        self._task_timeout = task_timeout(parts.service.started_in)
        config, client = parts.config, parts.node.client
        self._guard = TicketGuard(parts.tickets, TicketSeal(KeyFile(config.payload_key_file), client.namespace))
        self._refused = RefusedRuns(client, config.node_name, self._budget)
        self._name = NodeName(client, config.node_name, partial(parts.tickets.of, node_workflow_id(config.node_name)))
        self.leads = self._leads()
        self.hosting = self._hosting()
        numbers = signal_numbers(config.state_dir, SENDER)
        self.signals = WorkflowSignals(client, self._budget, numbers, self.leads.answers)
        parts.services.probes.tell_verdict = self.signals.tell_verdict

    def show(self) -> None:
        """Let the process's metrics and its local socket tell of Temporal."""
        telemetry, leads, phase = self._parts.telemetry, self.leads, self.phase
        telemetry.texts[WORKFLOW_ENGINE] = lambda: as_text(leads.engine())
        telemetry.texts[PROCESS] = lambda: state_of(self._parts.service, hosts=phase.is_hosting)
        telemetry.metrics.show_workflow_engine(leads.engine)

    def running(self) -> Sequence[AbstractAsyncContextManager[None]]:
        """Return what runs beside the rest of the process."""
        return (
            self.leads.running(),
            in_background(LEADS, self.signals.deliveries.follow),
            in_background(TEMPORAL, self.hosting.run),
            ending_refused_runs(self._refused),
        )

    # --- parts

    def _leads(self) -> PodLeads:
        parts = self._parts
        return PodLeads(
            LeadDependencies(
                config=parts.config,
                services=parts.services,
                tickets=parts.tickets,
                seal=self._guard.seal,
                publish=parts.readiness.publish,
                interceptors=parts.interceptors,
                temporal=HandingBack(parts.node.client, is_ours=self._name.is_ours, task_timeout=self._task_timeout),
                name=self._name,
                phase=self.phase,
                is_stopping=lambda: parts.service.is_stopping,
                note=partial(parts.service.note, about=LEADS),
                task_timeout=self._task_timeout,
            )
        )

    def _hosting(self) -> Hosting:
        parts = self._parts
        return Hosting(
            HostingDependencies(
                config=parts.config,
                node=parts.node,
                service=parts.service,
                name=self._name,
                before=self._before(),
                worker=self._worker,
                shut=self.leads.shut,
                cache=parts.cache,
                present=parts.services.present_attempts,
                budget=self._budget,
                show_history=parts.telemetry.metrics.history,
                numbers=self.leads.numbers,
                phase=self.phase,
            )
        )

    def _before(self) -> BeforePolling:
        parts, config = self._parts, self._parts.config
        check = ReplayCheck(
            CheckDependencies(
                state_dir=config.state_dir,
                key_file=config.payload_key_file,
                runtime=parts.telemetry.runtime,
                lead=self.leads.lead_instead,
                note=partial(parts.service.note, about=REPLAYS),
                count=parts.telemetry.metrics.history_replayed,
            )
        )
        return BeforePolling(
            node=config.node_name,
            compare=self.leads.compare,
            replay=check.run,
            known=lambda: [one.workflow_id for one in parts.cache.snapshots()],
            budget=self._budget,
            phase=self.phase,
        )

    def _worker(self, client: Client) -> Worker:
        """Make the SDK's worker of a connection."""
        parts, leads = self._parts, self.leads
        refusals = Refusals(parts.telemetry.metrics.activity_refused, self._refused.add)
        loop, refused = asyncio.get_running_loop(), self._refused
        publish = self._guard.only_of_leaders(
            parts.readiness.publish,
            leads.fence.say,
            refused=lambda *run: loop.call_soon_threadsafe(refused.add, *run),
        )
        around = (
            publishing(publish, leads.received, leads.keep, leads.end),
            leads.fence.interceptor(),
            *self._guard.interceptors(parts.services.present_attempts, refusals),
            *leads.noticing,
        )
        node = parts.config.node_name
        return pod_worker(
            client, node, parts.services, around=around, more=parts.interceptors, timeout=self._task_timeout
        )
