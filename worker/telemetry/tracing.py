"""Tracing from the poller's signal through a workflow's activities to their CRI calls.

temporalio's OpenTelemetryPlugin carries the context in headers. The spans are ours, because the plugin's include one that lasts
as long as the workflow, which for a pod is months, and is exported only then. Ours are: what the poller sends (the root), a
point where the workflow receives it, each activity, each CRI call (`activities/clients/observe.py`).

If tracing is off, nothing of this is imported (`open_tracing` returns no plugins). If a trace is not sampled, no context is
sent, so that history does not grow: it would cost 130 bytes for every event with headers.
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

_FLUSH_LIMIT: Final = timedelta(seconds=3)  # for the last spans at shutdown


class Tracing:
    """The plugins for a Temporal client, and the shutdown of tracing."""

    def __init__(self, plugins: tuple[Plugin, ...] = (), provider: "ReplaySafeTracerProvider | None" = None) -> None:
        self.plugins = plugins
        self._provider = provider

    async def close(self) -> None:
        """Export the remaining spans, within a short limit; if the collector is unavailable they are lost."""
        if self._provider is not None:
            await asyncio.to_thread(self._provider.force_flush, int(_FLUSH_LIMIT.total_seconds() * 1000))


def open_tracing(settings: TracingSettings, environment: Mapping[str, str] | None = None) -> Tracing:
    """Set up the process's tracing, once, before the client connects."""
    if not settings.wanted(os.environ if environment is None else environment):
        return Tracing()
    from worker.telemetry import spans  # noqa: PLC0415 - a process without an exporter loads none of it

    provider = spans.exporting_provider(settings)
    return Tracing(spans.plugins(provider), provider)
