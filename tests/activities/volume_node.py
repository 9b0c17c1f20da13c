"""A node for tests of volumes: its folders are the test's, and its runtime is not used."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.images.image_pulls import ImagePulls
from activities.machine.cgroups import Cgroups
from activities.node_services import NodeServices
from activities.settings.activity_settings import ActivitySettings


@asynccontextmanager
async def volume_services(directory: Path, **settings: Any) -> AsyncIterator[NodeServices]:
    """Create the services of a node; keywords are settings."""
    runtime = RuntimeClient("unix:///nowhere", StartLimit(1))
    settings = {"root_dir": directory / "kubelet", "pod_logs_dir": directory / "logs", **settings}
    try:
        yield NodeServices(
            settings=ActivitySettings(**settings), runtime=runtime, cgroups=Cgroups("/nowhere"), pulls=ImagePulls()
        )
    finally:
        await runtime.close()
