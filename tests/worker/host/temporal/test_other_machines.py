"""Does a worker keep away from a node that another machine hosts, and take the place of a machine that is gone?"""

import asyncio
import uuid
from functools import partial
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.temporal.names import node_task_queue
from tests.patience import PATIENCE
from tests.worker.processes.poller_node import eventually
from worker.host.temporal import other_machines
from worker.host.temporal.other_machines import GONE_AFTER, Watch, machine_of, until_alone
from worker.temporal.temporal_client import TemporalSettings, connect, prepare

OWN = "worker/n1/host/m00000000-boot0000-1"
EARLIER = "worker/n1/host/m00000000-boot9999-1/2"
OTHER = "worker/n1/host/m11111111-boot1111-1"
OLD_RELEASE = "worker/n1/host/boot1111-1"
LATER = GONE_AFTER.total_seconds()


@pytest.mark.parametrize(
    ("looks", "alive", "perhaps"),
    [
        pytest.param([({}, 0)], [], [], id="nobody-polls"),
        pytest.param([({OWN: 1, EARLIER: 1}, 0)], [], [], id="this-machine-before-a-reboot"),
        pytest.param([({OLD_RELEASE: 1}, 0)], [], [], id="a-worker-of-an-earlier-release"),
        pytest.param([({"somebody": 1}, 0)], [], [], id="somebody-who-is-no-worker-of-ours"),
        pytest.param([({OTHER: 1}, 0)], [], [OTHER], id="another-machine-that-may-be-gone"),
        pytest.param([({OTHER: 1}, 0), ({OTHER: 1}, LATER - 1)], [], [OTHER], id="not-long-enough-to-know"),
        pytest.param([({OTHER: 1}, 0), ({OTHER: 1}, LATER)], [], [], id="another-machine-that-is-gone"),
        pytest.param([({OTHER: 1}, 0), ({OTHER: 2}, 10)], [OTHER], [], id="another-machine-that-polls"),
        pytest.param(
            [({OTHER: 1}, 0), ({OTHER: 2}, 10), ({OTHER: 2}, 10 + LATER)], [], [], id="one-that-polled-and-is-gone"
        ),
        pytest.param([({OTHER: 1}, 0), ({}, 10)], [], [], id="one-that-temporal-has-forgotten"),
    ],
)
def test_another_machine_is_told_from_one_that_is_gone(
    looks: list[tuple[dict[str, int], float]], alive: list[str], perhaps: list[str]
) -> None:
    """By its polls alone."""
    watch = Watch(OWN)
    found: Any = None
    for pollers, now in looks:
        found = watch.look(pollers, now)
    assert found == (alive, perhaps)


def test_a_node_name_with_slashes_hides_no_machine() -> None:
    """The mark is read from the end."""
    assert machine_of("worker/a/b/host/mabcdef01-boot0000-7") == "abcdef01"


@workflow.defn(name="Nothing", sandboxed=False)
class Nothing:
    """Is never started."""

    @workflow.run
    async def run(self) -> None:
        """Do nothing."""


async def test_a_second_machine_waits_until_the_first_has_stopped(
    settings: TemporalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real Temporal, which lists who polls."""
    monkeypatch.setattr(other_machines, "LOOK_EVERY", other_machines.LOOK_EVERY / 100)
    node = f"n{uuid.uuid4().hex[:8]}"
    first, second = [await connect(settings, identity=f"worker/{node}/host/m{n * 8}-boot-1") for n in "12"]
    await prepare(first, settings)
    told: asyncio.Queue[str] = asyncio.Queue()
    hosting = Worker(
        first, task_queue=node_task_queue(node), workflows=[Nothing], workflow_runner=UnsandboxedWorkflowRunner()
    )
    async with asyncio.timeout(PATIENCE):
        await until_alone(second, node, waits=told.put_nowait, refused=told.put_nowait)
        async with hosting:
            await eventually(partial(_is_listed, second, node))
            waiting = asyncio.create_task(until_alone(second, node, waits=told.put_nowait, refused=told.put_nowait))
            assert f"m{'1' * 8}" in await told.get()
            assert not waiting.done()
        monkeypatch.setattr(other_machines, "GONE_AFTER", other_machines.LOOK_EVERY)
        await waiting


async def _is_listed(client: Client, node: str) -> bool:
    return bool(await other_machines.pollers(client, node))
