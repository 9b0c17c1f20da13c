"""Is the removal of a pod's object one that Temporal sees alive?

What it does to the object is asked of a real API server (tests/cluster/pods/test_pod_deletion.py).
"""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.objects.pod_objects import ObjectState
from activities.pods.pod_deletion import PodDeletionActivities
from proto.temporal.activities.requests import DeletePodObject
from proto.temporal.pod import PodKey
from tests.patience import PATIENCE

POD = PodKey("default", "web", "uid-1")


async def test_an_api_server_that_is_slow_is_waited_for() -> None:
    """Each call may take its ten seconds: without a heartbeat a second try would begin beside the first."""
    heard = asyncio.Event()

    async def write_last(*_: object) -> ObjectState:
        await heard.wait()
        return ObjectState.GONE

    services: Any = SimpleNamespace(api=object(), pod_objects=SimpleNamespace(write_last=write_last))
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_timeout=timedelta(milliseconds=30))
    environment.on_heartbeat = lambda *_: heard.set()
    async with asyncio.timeout(PATIENCE):
        await environment.run(PodDeletionActivities(services).delete_pod_object, DeletePodObject(POD, {}))
    assert heard.is_set()
