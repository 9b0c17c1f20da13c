"""Coalesces and rate limits the RuntimeChanged signals to each pod's workflow; the latest state always arrives.

Fed by `runtime/event_stream.py` and `runtime/relist.py`. `SignalCoalescer` is pure: hints and `now` in, signals to send
out; `SignalSender` sends them. A pod has at most one call in flight and one merged hint waiting behind it. Each pod is
limited to five signals a second on average, which is what Temporal advises for a workflow, with a burst of five: with a
fixed gap of 200 ms a pod of three short init containers would wait 0.4 s for nothing. A hint only asks the workflow to
read the runtime, so a merged, repeated, late or lost one does no harm.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import structlog

from activities.execution.one_by_one import log_bad_item
from proto.temporal.signals import REBOOT, RuntimeChanged
from worker.poller.calls.temporal_calls import TemporalUnavailable
from worker.temporal.signal_numbers import SignalNumbers

GAP: Final = timedelta(milliseconds=200).total_seconds()
BURST: Final = 5
MOST_IDS: Final = 64
"""In one signal."""
RETRY_FIRST: Final = 0.1
RETRY_LONGEST: Final = 5.0

_log: Final = structlog.get_logger(__name__)
_DEMANDING: Final = ("event", "relist", "resync", "restart", REBOOT)


@dataclass(slots=True)
class _Pod:
    """The pending hint of one pod, and its rate limit."""

    waiting: RuntimeChanged | None = None
    not_before: float = 0.0
    in_flight: RuntimeChanged | None = None
    paid_until: float = 0.0
    """When the whole burst is available again (a leaky bucket of BURST signals)."""
    failures: int = 0
    retry_at: float = 0.0

    def ready_at(self) -> float:
        return max(self.not_before, self.retry_at, self.paid_until - (BURST - 1) * GAP)


def is_general(hint: RuntimeChanged) -> bool:
    """Report whether a hint names no container and no sandbox, so that the workflow reads all that it knows."""
    return not hint.exited and not hint.sandbox_lost


def merge(first: RuntimeChanged, second: RuntimeChanged) -> RuntimeChanged:
    """Merge two hints; if either is general, or the ids are too many, the merged hint is general."""
    source = max(first.source, second.source, key=_DEMANDING.index)
    exited = tuple(dict.fromkeys(first.exited + second.exited))
    lost = first.sandbox_lost or second.sandbox_lost
    if is_general(first) or is_general(second) or len(exited) > MOST_IDS:
        return RuntimeChanged(source)
    return RuntimeChanged(source, exited=exited, sandbox_lost=lost)


class SignalCoalescer:
    """Decides what to send when; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, workflow_id: str, hint: RuntimeChanged, now: float, *, after: float = 0.0) -> None:
        """Add a hint, to be sent `after` seconds or with an earlier pending one."""
        pod = self._pods.setdefault(workflow_id, _Pod())
        due = now + after
        pod.not_before = min(pod.not_before, due) if pod.waiting else due
        pod.waiting = merge(pod.waiting, hint) if pod.waiting else hint

    def take_due(self, now: float) -> list[tuple[str, RuntimeChanged]]:
        """Return what is due; each stays in flight until `done`, `skipped` or `failed` is called."""
        due = []
        for workflow_id, pod in list(self._pods.items()):
            if pod.waiting and not pod.in_flight and pod.ready_at() <= now:
                pod.in_flight, pod.waiting = pod.waiting, None
                pod.paid_until = max(pod.paid_until, now) + GAP
                due.append((workflow_id, pod.in_flight))
            elif not pod.waiting and not pod.in_flight and pod.paid_until <= now:
                del self._pods[workflow_id]
        return due

    def next_at(self) -> float | None:
        """Return when the next hint is due; None if none is pending."""
        return min((pod.ready_at() for pod in self._pods.values() if pod.waiting and not pod.in_flight), default=None)

    def done(self, workflow_id: str) -> None:
        """Record that the signal arrived."""
        if pod := self._pods.get(workflow_id):
            pod.in_flight, pod.failures, pod.retry_at = None, 0, 0.0

    def skipped(self, workflow_id: str) -> None:
        """Record that the signal was not needed any more: it does not count for the rate limit."""
        if pod := self._pods.get(workflow_id):
            pod.in_flight = None
            pod.paid_until -= GAP

    def failed(self, workflow_id: str, now: float) -> None:
        """Record that the signal may not have arrived: it is merged with newer hints and retried with back-off."""
        pod = self._pods.get(workflow_id)
        if not pod or not pod.in_flight:
            return
        pod.waiting = merge(pod.in_flight, pod.waiting) if pod.waiting else pod.in_flight
        pod.in_flight, pod.not_before = None, now
        pod.retry_at = now + min(RETRY_FIRST * 2**pod.failures, RETRY_LONGEST)
        pod.failures = min(pod.failures + 1, 10)

    def forget(self, workflow_id: str) -> None:
        """Drop a pod whose workflow is closed."""
        self._pods.pop(workflow_id, None)


class SignalSender:
    """Sends the signals that a SignalCoalescer releases."""

    def __init__(
        self,
        send: Callable[[str, RuntimeChanged], Awaitable[bool]],
        *,
        unknown_part: Callable[[str, RuntimeChanged], RuntimeChanged | None],
        gone: Callable[[str], None],
        numbers: SignalNumbers,
    ) -> None:
        """Take the send function, the filter for what a pod knows already, and the callback for closed workflows.

        `send` returns False if the workflow does not exist, and raises if the signal may not have arrived.
        """
        self._send = send
        self._unknown_part = unknown_part
        self._gone = gone
        self._numbers = numbers
        self._coalescer = SignalCoalescer()
        self._more = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._clock = asyncio.get_running_loop().time

    def queue(self, workflow_id: str, hint: RuntimeChanged, *, after: float = 0.0) -> None:
        """Queue a hint for a workflow."""
        self._coalescer.add(workflow_id, hint, self._clock(), after=after)
        self._more.set()

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                for workflow_id, hint in self._coalescer.take_due(self._clock()):
                    try:
                        self._dispatch(workflow_id, hint)
                    except Exception as error:  # noqa: BLE001 - other pods must not wait
                        log_bad_item("hints", workflow_id, error)
                        self._coalescer.forget(workflow_id)
                await self._wait()
        finally:
            for call in self._calls:
                call.cancel()

    async def _wait(self) -> None:
        next_at = self._coalescer.next_at()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(next_at):
                await self._more.wait()
        self._more.clear()

    def _dispatch(self, workflow_id: str, hint: RuntimeChanged) -> None:
        news = self._unknown_part(workflow_id, hint)
        if news is None:
            self._coalescer.skipped(workflow_id)
            return
        call = asyncio.create_task(self._call(workflow_id, replace(news, sequence=self._numbers.next())))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _call(self, workflow_id: str, hint: RuntimeChanged) -> None:
        try:
            arrived = await self._send(workflow_id, hint)
        except (TemporalUnavailable, asyncio.CancelledError) as error:  # the first is logged where it was detected
            self._coalescer.failed(workflow_id, self._clock())
            if isinstance(error, asyncio.CancelledError):
                raise  # the loop ends, and may be restarted
        except Exception as error:  # noqa: BLE001 - the hint is retried, and other pods must not wait
            _log.error("could not send a signal, retrying", workflow=workflow_id, err=str(error))
            self._coalescer.failed(workflow_id, self._clock())
        else:
            if arrived:
                self._coalescer.done(workflow_id)
            else:
                self._coalescer.forget(workflow_id)
                self._gone(workflow_id)
        self._more.set()
