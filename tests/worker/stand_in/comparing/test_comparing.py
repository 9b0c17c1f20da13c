"""Is what Temporal lacks led by the node, what is closed forgotten, and everything settled in time?"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tests.patience import PATIENCE
from tests.worker.stand_in.journal.journals import SOON, journal_in, start, workflow_id
from worker.stand_in.comparing.comparing import AT_ONCE, Compared, Comparing
from worker.stand_in.comparing.judgement import Seen
from worker.stand_in.journal.journal import Journal
from worker.stand_in.journal.kept import Place

HERE = "namespace-1"
AWAY = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
WHOLE = Seen(length=20)


class Temporal:
    """What Temporal has."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen | Exception] = {}
        """By UID; any other is whole."""
        self.namespace: str | Exception = HERE
        self.hangs: set[str] = set()
        self.at_once = self.most_at_once = 0
        self.listed: set[str] | None = set()

    async def namespace_id(self) -> str:
        """Return it, or fail."""
        if isinstance(self.namespace, Exception):
            raise self.namespace
        return self.namespace

    async def open_pods(self) -> set[str] | None:
        """Return what visibility has."""
        return self.listed

    async def see(self, workflow: str, _place: Place) -> Seen:
        """Look one up, or fail, or hang."""
        uid = workflow.rpartition("/")[2]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await (asyncio.Event().wait() if uid in self.hangs else asyncio.sleep(0))
        finally:
            self.at_once -= 1
        answer = self.seen.get(uid, WHOLE)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Node:
    """A node whose pods are compared."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.temporal = journal, Temporal()
        self.led: dict[str, str] = {}
        self.settled: list[bool] = []
        self.namespace = ""

    async def compare(self, within: timedelta = SOON) -> None:
        """Compare once."""
        compared = Compared(self.journal, self.take_over, self.known_in, self.settled.append)
        await Comparing(compared, within=within).compare(self.temporal)

    async def take_over(self, workflow: str, why: str) -> None:
        """Note who is led."""
        assert self.settled[-1] is False, "nobody starts a pod meanwhile"
        self.led[workflow.rpartition("/")[2]] = why

    def known_in(self, namespace_id: str) -> None:
        """Take the namespace."""
        self.namespace = namespace_id

    def known(self) -> set[str]:
        """Name the pods that the journal has."""
        return {one.rpartition("/")[2] for one in self.journal.workflows()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """An earlier worker has kept three pods, which Temporal led, and one that it led itself."""
    with journal_in(tmp_path) as journal:
        for uid in ("a", "b", "c"):
            journal.keep(workflow_id(uid), start(uid), Place(HERE, "run-1", 20))
        journal.keep(workflow_id("led"), start("led"), Place())
        assert all(journal.flush(workflow_id(uid), SOON) for uid in ("a", "b", "c", "led"))
    with journal_in(tmp_path) as journal:
        journal.read_all()
        yield Node(journal)


async def test_a_database_that_has_all_changes_nothing(node: Node) -> None:
    """The worker knows the namespace from then on."""
    await node.compare()
    assert (node.led, node.settled, node.namespace) == ({}, [False, True], HERE)
    assert node.known() == {"a", "b", "c", "led"}


async def test_what_temporal_lacks_is_led(node: Node) -> None:
    """Pod by pod."""
    node.temporal.seen = {"a": Seen(is_known=False), "b": Seen(length=9)}
    await node.compare()
    assert set(node.led) == {"a", "b"}
    assert node.known() == {"a", "b", "c", "led"}


async def test_after_a_lost_database_all_pods_are_led(node: Node) -> None:
    """Without a further call: another namespace says it all, also of pods that the poller has started there already."""
    node.temporal.namespace, node.temporal.hangs = "namespace-2", {"a", "b", "c"}
    await node.compare()
    assert set(node.led) == {"a", "b", "c"}


@pytest.mark.parametrize("listed", [set(), None], ids=["visibility-answers", "visibility-does-not-answer"])
async def test_what_somebody_has_ended_is_forgotten(node: Node, listed: set[str] | None) -> None:
    """While no worker ran, so that nobody has said so."""
    node.temporal.seen, node.temporal.listed = {"a": Seen(is_open=False, length=20)}, listed
    await node.compare()
    assert (node.known(), node.led) == ({"b", "c", "led"}, {})


@pytest.mark.jumping_clock
async def test_who_does_not_answer_keeps_nobody_waiting(node: Node) -> None:
    """What is known counts: one pod is led, the others go on."""
    node.temporal.seen, node.temporal.hangs = {"a": Seen(is_known=False), "b": AWAY}, {"c"}
    node.temporal.listed = None
    await node.compare(timedelta(seconds=1))
    assert (set(node.led), node.settled) == ({"a"}, [False, True])
    assert node.known() == {"a", "b", "c", "led"}


async def test_a_temporal_that_fails_at_once_settles_it(node: Node) -> None:
    """Nothing is known, and nothing is led for it."""
    node.temporal.namespace = AWAY
    await node.compare()
    assert (node.led, node.settled, node.namespace) == ({}, [False, True], "")


async def test_many_pods_are_looked_at_side_by_side(tmp_path: Path) -> None:
    """But not all at once."""
    with journal_in(tmp_path) as journal:
        for number in range(110):
            journal.keep(workflow_id(f"u{number}"), start(f"u{number}"), Place(HERE, "run-1", 20))
        node = Node(journal)
        async with asyncio.timeout(PATIENCE):
            await node.compare()
    assert node.temporal.most_at_once == AT_ONCE
