"""Is what Temporal's runs do held back while the fence is shut, and is then only the newest said?"""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from worker.stand_in.comparing.fence import Fence

WEB, DB = "pod/n/default/web/u1", "pod/n/default/db/u2"
STATE, SNAPSHOT = "state", "snapshot"


class Acts(ActivityInboundInterceptor):
    """An activity that notes that it was begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def execute_activity(self, _: ExecuteActivityInput) -> Any:
        """Begin."""
        self.begun.set()


def test_what_is_said_passes_an_open_fence_at_once() -> None:
    """In its order."""
    fence, said = Fence(), list[int]()
    for number in range(3):
        fence.say(WEB, STATE, partial(said.append, number))
    assert said == [0, 1, 2]


def test_a_shut_fence_holds_the_newest() -> None:
    """Of each workflow and subject; afterwards it is open again."""
    fence, said = Fence(), list[tuple[str, str, int]]()
    fence.shut()
    for number in range(3):
        for workflow, what in ((WEB, STATE), (WEB, SNAPSHOT), (DB, STATE)):
            fence.say(workflow, what, partial(said.append, (workflow, what, number)))
    assert (said, fence.is_shut) == ([], True)
    fence.open()
    assert said == [(WEB, STATE, 2), (WEB, SNAPSHOT, 2), (DB, STATE, 2)]
    fence.say(WEB, STATE, lambda: said.append((WEB, STATE, 3)))
    assert said[-1] == (WEB, STATE, 3)
    fence.open()
    assert len(said) == 4


@pytest.mark.parametrize("is_local", [False, True], ids=["an-activity", "a-local-activity"])
async def test_an_activity_waits_for_the_fence(is_local: bool) -> None:
    """A local one only reads, inside a workflow task, which must not wait."""
    fence, acts = Fence(), Acts()
    fence.shut()
    environment = ActivityEnvironment(client=Mock())
    environment.info = replace(environment.info, is_local=is_local)
    chain: Any = fence.interceptor().intercept_activity(acts)
    asking = ExecuteActivityInput(fn=lambda: None, args=[], executor=None, headers={})
    acting = asyncio.create_task(environment.run(chain.execute_activity, asking))
    for _ in range(20):
        await asyncio.sleep(0)
    assert acts.begun.is_set() == is_local
    fence.open()
    await acting
    assert acts.begun.is_set()
