"""One trace from what the poller tells a pod's workflow, through its activities, to the CRI calls they make.

temporalio's OpenTelemetryPlugin carries the context in headers; the spans are ours, because its own include one that
lasts as long as the workflow, which for a pod is months, and is exported only then. Ours: what the poller sends (the
root), a point where the workflow takes it up, each activity, each CRI call (`activities/clients/observe.py`).

Off, nothing of this is imported (`open_tracing` gives no plugins). On, but not sampled, no context goes out, so that a
history has not one byte more: a sampled-out trace would else cost 130 bytes for every event that carries headers.
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.client import Plugin

from worker.telemetry.tracing_settings import TracingSettings

if TYPE_CHECKING:
    from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider

_FLUSH_LIMIT: Final = timedelta(seconds=3)  # for the last spans at a stop


class Tracing:
    """What tracing adds to a Temporal client, and its end."""

    def __init__(self, plugins: tuple[Plugin, ...] = (), provider: "ReplaySafeTracerProvider | None" = None) -> None:
        self.plugins = plugins
        self._provider = provider

    async def close(self) -> None:
        """Send what is left, for a moment at most; a collector that is away costs the last spans."""
        if self._provider is not None:
            await asyncio.to_thread(self._provider.force_flush, int(_FLUSH_LIMIT.total_seconds() * 1000))


def open_tracing(settings: TracingSettings, environment: Mapping[str, str] | None = None) -> Tracing:
    """Set the process's tracing up, once, before the client connects."""
    if not settings.wanted(os.environ if environment is None else environment):
        return Tracing()
    from worker.telemetry import spans  # noqa: PLC0415 - a process without an exporter carries none of it

    provider = spans.exporting_provider(settings)
    return Tracing(spans.plugins(provider), provider)
