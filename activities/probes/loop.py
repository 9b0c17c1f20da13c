"""The probe loop of one container instance, from its start to its end; it does not use Temporal.

Created and ended by `loops`; `container_probes` listens to it. Each probe is a task that sleeps most of the time. The
kubelet starts probing at a random time within the period. Here startup and readiness are probed at once, so that a
container that is up counts as up, and liveness at the end of the first period, so that one that is not up yet is not
killed.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Final

from activities.clients.runtime import RuntimeClient
from activities.probes.counting import Thresholds, count, has_settled
from activities.probes.exec_command import ExecCommand
from activities.probes.grpc_health import GrpcHealth
from activities.probes.http_get import HttpGet
from activities.probes.outcome import Handler, Outcome, ProbeListener, ProbeNotRun, Target, ignore_outcome
from activities.probes.result_counts import ProbeResultCounts
from activities.probes.tcp_socket import TcpSocket
from proto.temporal.activities.heartbeats import ProbeProgress
from proto.temporal.activities.requests import ProbeContainer
from proto.temporal.pod import ProbeKind

HANDLERS: Final[Mapping[str, Callable[[dict[str, Any], Target, float], Handler]]] = {
    "exec": ExecCommand,
    "httpGet": HttpGet,
    "tcpSocket": TcpSocket,
    "grpc": GrpcHealth,
}
_TRIES: Final = 3
"""For a probe that could not run (pkg/kubelet/prober/prober.go maxProbeRetries)."""
_log: Final = logging.getLogger(__name__)


class ProbeLoop:
    """All probes of one container instance; `progress` has their results."""

    def __init__(  # noqa: PLR0913 - the last two only listen, and each to something of its own
        self,
        request: ProbeContainer,
        runtime: RuntimeClient,
        progress: dict[ProbeKind, ProbeProgress],
        is_terminating: Callable[[], bool] = lambda: False,
        *,
        result_counts: ProbeResultCounts | None = None,
        on_outcome: ProbeListener = ignore_outcome,
    ) -> None:
        self.pod, self.name, self.container_id = request.pod, request.name, request.container_id
        self.has_ended = False
        self.progress = progress
        self.listener = asyncio.Event()
        """Set when there is a change to report.

        Each listener installs its own event; the latest replaces the earlier.
        """
        self._started_at, self._is_terminating, self._on_outcome = request.started_at, is_terminating, on_outcome
        self._target = Target(request.container, request.container_id, request.pod_ip, runtime)
        numbers = result_counts or ProbeResultCounts()
        self._counts = {kind: numbers.of(self.pod, self.name, kind) for kind in progress}
        self._specs = {kind: request.container[kind.field] for kind in progress}
        self._started = asyncio.Event()
        self._start_others_if_ready()
        self._tasks = {kind: asyncio.create_task(self._run(kind), name=f"{kind} {self.name}") for kind in progress}

    def unreported(self) -> list[ProbeKind]:
        """List the probes whose result has changed and is not reported yet."""
        return [kind for kind, progress in self.progress.items() if not progress.told]

    def mark_unreported(self, known: Mapping[ProbeKind, int]) -> None:
        """Mark results as unreported that the workflow has not received.

        It has received the ones with these numbers.
        """
        for kind, progress in self.progress.items():
            progress.told = progress.told and progress.sequence <= known.get(kind, 0)

    def stopping(self) -> None:
        """Stop startup and liveness probes because the container is being stopped.

        Readiness continues until it is gone.
        """
        for kind in (ProbeKind.LIVENESS, ProbeKind.STARTUP):
            if kind in self._tasks:
                self._tasks[kind].cancel()

    def end(self) -> None:
        """Stop all probes: the container has ended."""
        self.has_ended = True
        for task in self._tasks.values():
            task.cancel()
        self.listener.set()

    def _start_others_if_ready(self) -> None:
        startup = self.progress.get(ProbeKind.STARTUP)
        if startup is None or startup.verdict:
            self._started.set()

    async def _run(self, kind: ProbeKind) -> None:
        """Probe until the result is final or the loop ends."""
        spec, progress = self._specs[kind], self.progress[kind]
        name, make = next((name, make) for name, make in HANDLERS.items() if spec.get(name) is not None)
        handler = make(spec[name], self._target, spec.get("timeoutSeconds") or 1)
        period, needed = spec.get("periodSeconds") or 10, Thresholds.of(spec)
        clock = asyncio.get_running_loop().time
        try:
            if kind is not ProbeKind.STARTUP:
                await self._started.wait()
            due = clock() + self._first_wait(kind, period)
            while not has_settled(kind, verdict=progress.verdict):
                await asyncio.sleep(due - clock())
                if kind is not ProbeKind.READINESS and self._is_terminating():
                    return  # the pod is terminating: its container need not be live, and will be stopped
                await self._ask(kind, handler, needed)
                due = max(due + period, clock())
        finally:
            await handler.close()

    def _first_wait(self, kind: ProbeKind, period: float) -> float:
        """Return the first wait in seconds; loops taken over from another worker are spread over the period."""
        runs_for = (datetime.now(UTC) - self._started_at).total_seconds() if self._started_at else 0.0
        delay = float(self._specs[kind].get("initialDelaySeconds") or 0)
        if kind is ProbeKind.LIVENESS:
            delay = max(delay, period)
        if self.progress[kind].run and delay <= runs_for:
            return random.uniform(0, period)  # noqa: S311 - spreads load, guards nothing
        return min(max(0.0, delay - runs_for), delay)  # a clock that was set back makes no wait longer

    async def _ask(self, kind: ProbeKind, handler: Handler, needed: Thresholds) -> None:
        """Probe once and count the outcome; a probe that could not run does not count."""
        begun, why = perf_counter(), ""
        for _ in range(_TRIES):
            try:
                outcome = await handler.ask()
            except ProbeNotRun as unasked:
                why = str(unasked)
                _log.debug("%s probe of %s in %s errored: %s", kind, self.name, self.pod, unasked)
            except Exception:  # noqa: BLE001 - a defect of one handler ends no other probe, nor this one for good
                _log.exception("a defect of tempolet, please report it: %s probe of %s", kind, self.name)
                return
            else:
                self._counts[kind].count(perf_counter() - begun, success=outcome.success)
                count(self.progress[kind], outcome, needed)
                if not outcome.success or outcome.warning:
                    self._on_outcome(self.pod, self.name, kind, failure_text(outcome))
                self._start_others_if_ready()
                if not self.progress[kind].told:
                    self.listener.set()
                return
        self._on_outcome(self.pod, self.name, kind, f"probe errored and resulted in unknown state: {why}")


def failure_text(outcome: Outcome) -> str:
    """Describe a failed probe as the kubelet's events do, after the kind of the probe."""
    return f"probe {'warning' if outcome.success else 'failed'}: {outcome.output}"
