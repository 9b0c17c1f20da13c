"""Does a worker ask runs of an older behaviour to go on with the committed one, once, and only then?"""

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.node import NodeStart
from tests.worker.commands.test_reading_commands import Commands, listed, tempolet
from tests.workflows.conftest import Node, client, node, pod_json
from worker.behaviours import raising, runs
from worker.behaviours.commitment import FILE, NEWEST, Behaviours, Commitment
from worker.behaviours.raising import Raising, raising_behaviours
from worker.behaviours.runs import Numbered, Run, runs_of
from worker.commands.access.exits import Exit
from worker.temporal.executions import OPEN, Execution
from workflows.decide.versions import CURRENT, OLDEST, OLDEST_NODE

__all__ = ["client", "node", "tempolet"]  # fixtures of others

LOW = Behaviours(OLDEST, OLDEST_NODE)


@pytest.fixture
def commitment(tmp_path: Path) -> Commitment:
    """A node that is committed to the oldest numbers."""
    (tmp_path / FILE).write_text(json.dumps({"pods": LOW.pods, "node": LOW.node}))
    return Commitment(tmp_path)


async def signals_of(client: Client, workflow_id: str, run_id: str) -> int:
    """Count a run's signals of a commitment."""
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    told = [event.workflow_execution_signaled_event_attributes.signal_name for event in history.events]
    return told.count(names.BEHAVIOUR_COMMITTED)


async def until_open(client: Client, node: str, behaviour: int, workflow_id: str = "") -> Run:
    """Wait until visibility shows an open run of a behaviour: the node's one, or that of this workflow."""
    async with asyncio.timeout(60):
        while True:
            for run in [run async for run in runs_of(client, node, OPEN)]:
                if run.behaviour == behaviour and workflow_id in {"", run.workflow_id}:
                    return run
            await asyncio.sleep(0.05)


async def until_closed(client: Client, node: str, run_id: str) -> None:
    """Wait until visibility shows a run as open no longer: it may show the next one before."""
    async with asyncio.timeout(60):
        while True:
            if run_id not in {run.run_id async for run in runs_of(client, node, OPEN)}:
                return
            await asyncio.sleep(0.05)


async def test_runs_are_raised_once_the_node_is_committed(
    node: Node,
    client: Client,
    commitment: Commitment,
    tempolet: Commands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not before; each run is signalled once; afterwards only closed runs have the older number."""
    node.behaviour = OLDEST
    pod = pod_json(name=node.name)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    worker = Raising(client, node.name, commitment, pause=timedelta())
    old = await until_open(client, node.name, OLDEST)
    await worker.look()
    assert await signals_of(client, old.workflow_id, old.run_id) == 0
    commitment.commit()
    await worker.look()
    await worker.look()
    new = await until_open(client, node.name, CURRENT)
    await until_closed(client, node.name, old.run_id)
    assert await signals_of(client, old.workflow_id, old.run_id) == 1
    await worker.look()
    await worker.look()
    assert await signals_of(client, new.workflow_id, new.run_id) == 0
    monkeypatch.setattr(raising, "runs_of", None)
    await worker.look()  # and then no more
    tempolet.capsys.readouterr()  # the worker's log
    code, out, _ = await tempolet("behaviour", "--hostname-override", node.name, "-o", "json")
    rows = {(one["of"], one["behaviour"]): (one["open"], one["closed"]) for one in json.loads(out)["runs"]}
    assert (code, rows["pods", OLDEST], rows["pods", CURRENT]) == (Exit.DONE, (0, 1), (1, 0))
    await node.delete(node.newest(pod))


async def test_a_run_that_is_too_old_is_left_alone_and_told(
    node: Node, client: Client, commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older release has to raise it."""
    node.behaviour = OLDEST
    pod = pod_json(name=node.name)
    await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    old = await until_open(client, node.name, OLDEST)
    monkeypatch.setattr(raising, "LOWEST", NEWEST)
    commitment.commit()
    await Raising(client, node.name, commitment, pause=timedelta()).look()
    assert await signals_of(client, old.workflow_id, old.run_id) == 0
    await node.delete(node.newest(pod))


async def test_the_nodes_own_workflow_is_asked_too(client: Client, commitment: Commitment) -> None:
    """By its own numbers; here no worker answers, so only the signal is looked for."""
    name = f"n-{id(commitment):x}"
    handle = await client.start_workflow(
        names.NODE_WORKFLOW,
        NodeStart(name, OLDEST_NODE),
        id=names.node_workflow_id(name),
        task_queue=names.node_task_queue(name),
        search_attributes=TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), name)]),
    )
    old = await until_open(client, name, OLDEST_NODE)
    assert old.kind == "node"
    commitment.commit()
    await Raising(client, name, commitment, pause=timedelta()).look()
    assert await signals_of(client, handle.id, old.run_id) == 1
    await handle.terminate()


@pytest.mark.parametrize(
    "given",
    [pytest.param((), id="no-input"), pytest.param(("x",), id="a-text"), pytest.param(({}, {}), id="two-inputs")],
)
async def test_a_run_that_somebody_else_started_stops_no_other(
    client: Client, commitment: Commitment, given: tuple[object, ...]
) -> None:
    """Its number cannot be read, and it is left alone; ours is raised."""
    name = f"n-{uuid.uuid4().hex[:8]}"
    own = TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), name)])
    queue = names.node_task_queue(name)
    foreign = await client.start_workflow(
        names.POD_WORKFLOW, args=given, id=f"foreign-{name}", task_queue=queue, search_attributes=own
    )
    handle = await client.start_workflow(
        names.NODE_WORKFLOW,
        NodeStart(name, OLDEST_NODE),
        id=names.node_workflow_id(name),
        task_queue=queue,
        search_attributes=own,
    )
    old = await until_open(client, name, OLDEST_NODE, handle.id)
    commitment.commit()
    await Raising(client, name, commitment, pause=timedelta()).look()
    assert await signals_of(client, handle.id, old.run_id) == 1
    for one in (foreign, handle):
        await one.terminate()


class Played:
    """Stands in for what is looked for again and again."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)
        self.looks: list[float] = []
        """When each look was."""

    async def look(self) -> bool:
        """Answer, or fail; after the last answer nothing is left to do."""
        self.looks.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if self.answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer


AWAY = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
EVERY = 60.0


@pytest.mark.jumping_clock
@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        pytest.param([False, False], [0, 60, 60], id="at-once-and-then-at-the-interval"),
        pytest.param([True, True, False], [0, 5, 10, 60], id="soon-again-while-runs-are-asked"),
        pytest.param([AWAY, False], [0, 5, 60], id="soon-again-if-temporal-is-away"),
        pytest.param([RuntimeError("no connection"), False], [0, 5, 60], id="also-if-there-is-no-connection"),
        pytest.param([True] * 6, [0, 5, 10, 20, 40, 60, 60], id="at-last-at-the-interval"),
        pytest.param([True, False, True], [0, 5, 60, 5, 60], id="the-pauses-begin-anew"),
    ],
)
async def test_when_is_looked(answers: list[bool | Exception], pauses: list[float]) -> None:
    """A run that is asked may have continued as new before it heard it: its next run has to be asked, too."""
    played = Played(*answers)
    begun = asyncio.get_running_loop().time()
    async with raising_behaviours(played, timedelta(seconds=EVERY)):  # type: ignore[arg-type]  # plays Raising
        await asyncio.sleep(sum(pauses) + 1)
    looks = [begun, *played.looks]
    assert [round(after - before) for before, after in itertools.pairwise(looks)] == pauses


class Runs:
    """What visibility lists, and who was signalled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *listings: list[tuple[str, int]]) -> None:
        self.listings, self.asked, self.gone = list(listings), list[str](), set[str]()
        self.read: list[str] = []
        monkeypatch.setattr(runs, "list_executions", self.list)
        monkeypatch.setattr(runs, "behaviour_of", self.behaviour_of)
        self.numbers: dict[str, int | RPCError] = {}

    async def list(self, *_: Any) -> AsyncIterator[Execution]:
        """List the next ones; the last list stays."""
        listing = self.listings.pop(0) if len(self.listings) > 1 else self.listings[0]
        for run_id, number in listing:
            self.numbers.setdefault(run_id, number)
            yield Execution(f"pod/n/default/{run_id[0]}/u", run_id, names.POD_WORKFLOW, 1, datetime.now(UTC))

    async def behaviour_of(self, _client: Any, _workflow_id: str, run_id: str) -> int:
        """Read a number, or fail."""
        self.read.append(run_id)
        number = self.numbers[run_id]
        if isinstance(number, RPCError):
            raise number
        return number

    def get_workflow_handle(self, _workflow_id: str, *, run_id: str) -> Any:
        """Return what takes the signal, unless the run has gone."""

        async def signal(*_: Any) -> None:
            if run_id in self.gone:
                raise RPCError("workflow execution already completed", RPCStatusCode.NOT_FOUND, b"")
            self.asked.append(run_id)

        return SimpleNamespace(signal=signal)

    def raising(self, commitment: Commitment, **more: Any) -> Raising:
        """Raise these runs."""
        return Raising(self, "n", commitment, pause=timedelta(), **more)  # type: ignore[arg-type]  # plays Client


async def test_a_run_that_has_continued_meanwhile_is_followed(
    commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next run is asked by the next look, which is soon."""
    played = Runs(monkeypatch, [("a1", OLDEST)], [("a2", OLDEST)], [("a3", CURRENT)])
    played.gone = {"a1"}
    commitment.commit()
    worker = played.raising(commitment)
    assert [await worker.look(), played.asked] == [True, []]
    assert [await worker.look(), played.asked] == [True, ["a2"]]
    assert [await worker.look(), await worker.look(), await worker.look()] == [False, False, False]
    assert played.asked == ["a2"]


async def test_one_run_that_cannot_be_read_keeps_no_other(
    commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Temporal says of it; if it is away, what was read before is not read again."""
    played = Runs(monkeypatch, [("a1", OLDEST), *((f"b{n}", CURRENT) for n in range(8)), ("c1", OLDEST)])
    played.numbers["c1"] = RPCError("history is corrupt", RPCStatusCode.INTERNAL, b"")
    commitment.commit()
    worker = played.raising(commitment)
    await worker.look()
    assert played.asked == ["a1"]
    played.numbers["c1"] = AWAY
    with pytest.raises(RPCError):
        await worker.look()
    played.numbers["c1"] = OLDEST
    await worker.look()
    assert played.asked == ["a1", "c1"]
    assert sorted(set(played.read) - {"c1"}) == sorted(one for one in played.read if one != "c1"), "each once"


async def test_what_the_node_knows_by_itself_is_not_read(
    commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a start with many pods costs one list."""
    played = Runs(monkeypatch, [("a1", OLDEST), ("b1", CURRENT)])
    commitment.commit()
    known = {"a1": Numbered("pods", OLDEST), "b1": Numbered("pods", CURRENT)}
    await played.raising(commitment, numbers=lambda: known).look()
    assert (played.read, played.asked) == ([], ["a1"])


async def test_a_pod_that_comes_back_with_an_old_number_is_raised(
    commitment: Commitment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all were raised nothing is listed, until the node knows a run of an older number: one that it has handed back."""
    played = Runs(monkeypatch, [("a1", CURRENT)], [("a1", CURRENT)], [("a2", OLDEST)], [("a3", CURRENT)])
    commitment.commit()
    known = dict[str, Numbered]()
    worker = played.raising(commitment, numbers=lambda: known)
    for _ in range(4):
        assert not await worker.look()
    assert len(played.listings) == 2
    known["a2"] = Numbered("pods", OLDEST)
    assert await worker.look()
    assert played.asked == ["a2"]
