"""Is an end that comes right after a start found soon, and is a container that runs on left to run?"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import grpc
import pytest

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.runtime.early_ends import end_or_status
from proto.cri.v1 import api_pb2 as cri
from tests.patience import PATIENCE

RUNNING, EXITED = cri.ContainerState.CONTAINER_RUNNING, cri.ContainerState.CONTAINER_EXITED
MOMENT = timedelta(milliseconds=150)
GONE = CriError("ContainerStatus", grpc.StatusCode.NOT_FOUND, "no such container")


class Runtime:
    """Answers these, one look after the other; the last one for ever."""

    def __init__(self, answers: Sequence[cri.ContainerState | CriError]) -> None:
        self.answers = list(answers)
        self.looks = 0

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        """Answer the next one."""
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, CriError):
            raise answer
        return cri.ContainerStatus(id=container_id, state=answer)


@pytest.mark.parametrize(
    ("begins", "answers", "within", "ends", "looks"),
    [
        pytest.param(RUNNING, [EXITED], MOMENT, EXITED, 1, id="it-ends-and-is-not-asked-again"),
        pytest.param(RUNNING, [RUNNING], timedelta(), RUNNING, 0, id="nobody-waits-for-its-end"),
        pytest.param(EXITED, [EXITED], MOMENT, EXITED, 0, id="it-had-ended-before-the-first-look"),
        pytest.param(RUNNING, [GONE], MOMENT, RUNNING, 1, id="what-cannot-be-asked-has-started-all-the-same"),
    ],
)
async def test_how_often_it_looks(
    begins: cri.ContainerState,
    answers: list[cri.ContainerState | CriError],
    within: timedelta,
    ends: cri.ContainerState,
    looks: int,
) -> None:
    """Each row is what the runtime says, look by look."""
    runtime = Runtime(answers)
    begun = cri.ContainerStatus(id="c", state=begins)
    assert (await end_or_status(cast("RuntimeClient", runtime), begun, within)).state == ends
    assert runtime.looks == looks


async def test_an_end_is_found_at_a_later_look() -> None:
    """However long that look may be in coming on a busy machine."""
    runtime = Runtime([RUNNING, RUNNING, EXITED])
    begun = cri.ContainerStatus(id="c", state=RUNNING)
    ended = await end_or_status(cast("RuntimeClient", runtime), begun, timedelta(minutes=1))
    assert (ended.state, runtime.looks) == (EXITED, 3)


async def test_one_that_runs_on_is_waited_for_a_moment_only() -> None:
    """Some 25 looks at most."""
    runtime = Runtime([RUNNING])
    begun = cri.ContainerStatus(id="c", state=RUNNING)
    async with asyncio.timeout(PATIENCE):
        await end_or_status(cast("RuntimeClient", runtime), begun, MOMENT)
    assert 1 <= runtime.looks <= 28
