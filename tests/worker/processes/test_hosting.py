"""Is the SDK's worker begun when Temporal answers, ended in order, and begun anew after a fatal error, in the same process?

On a real Temporal; the test plays the SDK's worker.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.execution.present_attempts import PresentAttempts
from tests.patience import PATIENCE
from tests.worker.processes.poller_node import Line, eventually
from worker.daemon import loop_restarts
from worker.daemon.background import in_background
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import NodeClient, node_client
from worker.daemon.service import Service
from worker.host.pod_cache import PodCache
from worker.host.temporal.first_look import FirstLook
from worker.host.temporal.node_name import NodeName
from worker.processes.before_polling import BeforePolling, Phase
from worker.processes.hosting import Hosting, HostingDependencies
from worker.settings.tempolet_configuration import tempolet_configuration
from worker.temporal.call_budget import CallBudget


@dataclass
class Played:
    """An SDK's worker that runs until the test ends it."""

    identity: str
    failing: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    shut_down: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Run until shut down, or until the test lets it fail."""
        await self.failing

    async def shutdown(self) -> None:
        """Note it, and end."""
        self.shut_down.set()
        if not self.failing.done():
            self.failing.set_result(None)


class Host:
    """A hosting whose workers the test gets one by one."""

    def __init__(self, config: NodeConfig, node: NodeClient, cache: PodCache) -> None:
        self.workers: asyncio.Queue[Played] = asyncio.Queue()
        self.compared: list[str] = []
        self.node = node
        self.name = NodeName(node.client, config.node_name, lambda: None)
        self.replayed: list[str] = []
        self.phase = Phase()
        budget = CallBudget()
        self.hosting = Hosting(
            HostingDependencies(
                config=config,
                node=node,
                service=Service(lambda: "", {}),
                name=self.name,
                worker=self._begin,  # type: ignore[arg-type]  # plays Worker
                before=BeforePolling(
                    node=config.node_name,
                    compare=self._compare,
                    replay=self._replay,
                    known=list,
                    budget=budget,
                    phase=self.phase,
                ),
                phase=self.phase,
                shut=lambda: self.compared.append("shut"),
                cache=cache,
                present=PresentAttempts(),
                budget=budget,
                show_history=lambda *_: None,
                numbers=dict,
            )
        )

    async def until_compared(self, count: int) -> None:
        """Wait for so many comparisons, and losses of the connection."""

        async def is_so() -> bool:
            return len(self.compared) >= count

        await eventually(is_so)

    async def _compare(self, look: FirstLook) -> None:
        assert self.workers.empty(), "before any worker asks for work, or after the test has taken it"
        self.compared.append(look.client.identity)

    async def _replay(self, look: FirstLook, known: Iterable[str]) -> None:
        assert self.workers.empty()
        assert self.phase == Phase(is_replaying=True)
        assert set(known) == {"node/node-1"}
        self.replayed.append(look.client.identity)

    def _begin(self, client: Client) -> Played:
        begun = Played(client.identity)
        self.workers.put_nowait(begun)
        return begun


@pytest.fixture
async def line(temporal_address: str) -> AsyncIterator[Line]:
    """Return a way to Temporal that can be cut."""
    async with Line(temporal_address) as made:
        yield made


@pytest.fixture
async def host(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    """Return a hosting that does not run yet."""
    monkeypatch.setattr(loop_restarts, "FIRST_PAUSE", 0.01)
    own = tempolet_configuration({"temporal": {"address": line.address}})
    config = NodeConfig("node-1", root_dir=tmp_path, tempolet=own)
    node = await node_client(config, Service(lambda: "", {}), role="worker")
    with PodCache(tmp_path, whole_pods=False) as cache:
        yield Host(config, node, cache)


async def test_a_worker_begins_when_temporal_has_come_and_is_shut_down_in_order(host: Host, line: Line) -> None:
    """Not before, and not by a cancellation, which would skip the grace of its activities."""
    await line.cut()
    async with asyncio.timeout(PATIENCE):
        async with in_background("Temporal", host.hosting.run):
            await host.node.tried()
            assert host.workers.empty()
            await line.mend()
            worker = await host.workers.get()
            assert host.replayed == [worker.identity]
            assert not worker.shut_down.is_set()
        assert worker.shut_down.is_set()


@pytest.mark.parametrize("end", ["a-fatal-error", "an-end-without-error", "the-namespace-is-gone"])
async def test_after_an_end_another_begins_with_an_identity_of_its_own(host: Host, end: str) -> None:
    """The attempts that the first has left are then those of another worker, and are taken over."""
    async with asyncio.timeout(PATIENCE), in_background("Temporal", host.hosting.run):
        first = await host.workers.get()
        match end:
            case "a-fatal-error":
                first.failing.set_exception(RuntimeError("Poll failure: PermissionDenied"))
            case "an-end-without-error":
                first.failing.set_result(None)
            case _:
                host.node.namespace_gone.set()
        second = await host.workers.get()
        assert first.shut_down.is_set()
        assert second.identity == f"{first.identity}/2"
        assert host.compared == [first.identity, second.identity]
        assert not second.shut_down.is_set()


async def test_it_ends_when_another_machine_has_the_name(host: Host) -> None:
    """And begins again once that one is gone."""
    async with asyncio.timeout(PATIENCE), in_background("Temporal", host.hosting.run):
        first = await host.workers.get()
        host.name._take("another machine has it")
        await first.shut_down.wait()
        second = await host.workers.get()
        assert host.name.taken_by == ""
        assert not second.shut_down.is_set()


async def test_after_a_lost_connection_it_is_compared_again(host: Host, line: Line) -> None:
    """The same worker goes on; until then what Temporal's runs do is held back."""
    async with asyncio.timeout(PATIENCE), in_background("Temporal", host.hosting.run):
        worker = await host.workers.get()
        await line.cut()
        await host.until_compared(2)
        await line.mend()
        await host.until_compared(3)
        assert host.compared == [worker.identity, "shut", worker.identity]
        assert not worker.shut_down.is_set()
