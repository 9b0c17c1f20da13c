"""Which events reach a pod's workflow, and does the reader survive every kind of stream?"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from proto.cri.ownership import HOOK_LABEL
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from proto.temporal.signals import RuntimeChanged
from tests.worker.poller.runtime.fake_runtime import (
    CREATED,
    DELETED,
    STARTED,
    STOPPED,
    FakeRuntime,
    container,
    event,
    sandbox,
)
from tests.worker.poller.snapshots import snapshot
from worker.poller.runtime.event_stream import EventStream, is_reported_by_start, pod_of, signal_for

POD = sandbox("u1", "s1")
C1, C2 = container("c1", "s1"), container("c2", "s1", attempt=1)
HELPER = container("h1", "s1")
HELPER.labels[HOOK_LABEL] = "preStart"
EXITED = RuntimeChanged("event", exited=("c1",))
LOST = RuntimeChanged("event", sandbox_lost=True)


@pytest.mark.parametrize(
    ("told", "known", "hint"),
    [
        pytest.param(event(STOPPED, "c1", POD, C1), snapshot("u1", {"c": "c1 running"}), EXITED, id="an-end"),
        pytest.param(event(STOPPED, "c1", POD, C1), snapshot("u1", {"c": "c1 exited"}), None, id="a-known-end"),
        pytest.param(event(STOPPED, "c1", POD, C1), snapshot("u1"), EXITED, id="an-end-before-the-snapshot-has-it"),
        pytest.param(event(STOPPED, "c1", POD, C1), None, EXITED, id="an-end-before-the-first-snapshot"),
        pytest.param(
            event(STOPPED, "c1", POD, C1, C2), snapshot("u1", {"c": "c2 running 1"}), None, id="an-older-instance"
        ),
        pytest.param(
            event(DELETED, "c1", POD), snapshot("u1", {"c": "c1 running"}), EXITED, id="removed-behind-our-back"
        ),
        pytest.param(event(DELETED, "c1", POD), snapshot("u1", {"c": "c1 exited"}), None, id="removed-after-its-end"),
        pytest.param(
            event(DELETED, "c1", POD), snapshot("u1", {"c": "c2 running 1"}), None, id="an-old-one-is-tidied-away"
        ),
        pytest.param(event(DELETED, "c1", POD), None, None, id="removed-with-its-pod"),
        pytest.param(event(STOPPED, "h1", POD, HELPER), snapshot("u1"), None, id="a-hooks-command-has-ended"),
        pytest.param(event(STOPPED, "s1", POD), snapshot("u1"), LOST, id="the-sandbox-died"),
        pytest.param(event(DELETED, "s1", None), snapshot("u1"), LOST, id="the-sandbox-was-removed"),
        pytest.param(event(STOPPED, "s1", POD), snapshot("u1", sandbox_id=""), None, id="a-sandbox-still-being-made"),
        pytest.param(event(STOPPED, "s1", POD), snapshot("u1", sandbox_id="s2"), None, id="a-replaced-sandbox"),
        pytest.param(event(STOPPED, "s1", POD), None, LOST, id="a-sandbox-before-the-first-snapshot"),
    ],
)
def test_only_ends_that_the_pod_does_not_know_are_hints(
    told: cri.ContainerEventResponse, known: PodSnapshot | None, hint: RuntimeChanged | None
) -> None:
    """Each row is one event and the pod's snapshot at that time."""
    assert signal_for(told, known) == hint


@pytest.mark.parametrize(
    ("told", "awaited", "held_back"),
    [
        pytest.param(event(STOPPED, "c1", POD, C1), ("c",), True, id="its-start-is-under-way-and-tells-its-end"),
        pytest.param(event(STOPPED, "c1", POD, C1), ("other",), False, id="another-one-s-does"),
        pytest.param(event(STOPPED, "c1", POD, C1), (), False, id="nobody-waits-for-an-end"),
        pytest.param(event(STOPPED, "s1", POD, C1), ("c",), False, id="the-sandbox-died"),
        pytest.param(event(DELETED, "c1", POD), ("c",), False, id="nobody-can-say-whose-it-was"),
    ],
)
def test_an_end_that_its_start_tells(
    told: cri.ContainerEventResponse, awaited: tuple[str, ...], held_back: bool
) -> None:
    """Each row is one event, and the containers whose starts wait for their ends."""
    assert is_reported_by_start(told, snapshot("u1", ends_awaited=awaited)) is held_back
    assert not is_reported_by_start(told, None)


@pytest.mark.parametrize(
    ("told", "uid"),
    [
        pytest.param(event(STOPPED, "c1", POD), "u1", id="by-the-sandboxs-labels"),
        pytest.param(event(DELETED, "c1", None), "u1", id="by-the-snapshot-when-the-runtime-forgot"),
        pytest.param(event(DELETED, "c7", None), None, id="nobodys"),
        pytest.param(event(STOPPED, "k1", sandbox("u9", "s9", node="")), None, id="a-kubelets"),
        pytest.param(event(STOPPED, "k1", sandbox("u9", "s9", node="other")), None, id="another-nodes"),
        pytest.param(event(STOPPED, "c1", sandbox("u1", "s1", node="")), "u1", id="a-kubelets-that-was-taken-over"),
        pytest.param(event(STOPPED, "c1", sandbox("u1", "s1", node="other")), None, id="another-nodes-of-a-known-uid"),
    ],
)
def test_an_event_belongs_to_a_pod_of_ours_or_to_nobody(told: cri.ContainerEventResponse, uid: str | None) -> None:
    """The node's annotation decides, and without one the snapshot."""
    found = pod_of(told, "n", OneKnown())
    assert (found[0] if found else None) == uid


class OneKnown:
    """The snapshot of u1."""

    snapshot = snapshot("u1", {"c": "c1 running"})

    def of(self, uid: str) -> PodSnapshot | None:
        """Read one."""
        return self.snapshot if uid == "u1" else None

    def with_object(self, object_id: str) -> PodSnapshot | None:
        """Find one."""
        return self.snapshot if object_id == "c1" else None


class Taker:
    """Writes down what the stream says."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.openings = self.lost = 0
        self.more = asyncio.Event()

    def handle_event(self, event: cri.ContainerEventResponse) -> None:
        """Take an event."""
        self.taken.append(event.container_id)
        self.more.set()

    def stream_lost(self) -> None:
        """Count it."""
        self.lost += 1

    def stream_opened(self) -> None:
        """Take an opening."""
        self.openings += 1
        self.more.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(10):
            while not true():
                self.more.clear()
                await self.more.wait()


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[FakeRuntime]:
    """Run a fake runtime."""
    fake = FakeRuntime(tmp_path / "cri.sock")
    await fake.start()
    yield fake
    await fake.stop()


async def following(runtime: FakeRuntime, act: Callable[[EventStream, Taker], Awaitable[None]]) -> None:
    """Follow the runtime's stream while the test acts."""
    client, handler = RuntimeClient(runtime.endpoint, StartLimit(1)), Taker()
    stream = EventStream(client, handler)
    task = asyncio.create_task(stream.follow())
    try:
        await act(stream, handler)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def test_ends_arrive_and_beginnings_are_not_told(runtime: FakeRuntime) -> None:
    """In the runtime's order."""

    async def act(stream: EventStream, handler: Taker) -> None:
        await handler.until(lambda: handler.openings == 1)
        assert stream.flows
        for kind, one in ((CREATED, "c1"), (STARTED, "c1"), (STOPPED, "c1"), (DELETED, "c1"), (STOPPED, "s1")):
            runtime.tell(event(kind, one, POD))
        await handler.until(lambda: len(handler.taken) == 3)
        assert handler.taken == ["c1", "c1", "s1"]
        assert stream.reported_end_of("c1")
        assert not stream.reported_end_of("c2")

    await following(runtime, act)


async def test_a_runtime_that_restarts_is_read_again_and_asked_for_what_was_missed(runtime: FakeRuntime) -> None:
    """Every opening asks for a relist."""

    async def act(stream: EventStream, handler: Taker) -> None:
        await handler.until(lambda: handler.openings == 1)
        await runtime.stop()
        await runtime.start()
        await handler.until(lambda: handler.openings == 2)
        assert handler.lost >= 1
        assert stream.flows
        runtime.tell(event(STOPPED, "c1", POD))
        await handler.until(lambda: handler.taken == ["c1"])

    await following(runtime, act)


async def test_a_runtime_that_shares_one_stream_is_not_read(tmp_path: Path) -> None:
    """Containerd before 2.0: a second reader would steal the first one's events."""
    fake = FakeRuntime(tmp_path / "old.sock", version="1.7.28~ds1")
    await fake.start()

    async def act(stream: EventStream, handler: Taker) -> None:
        async with asyncio.timeout(10):
            await fake.asked.wait()
        await asyncio.sleep(0.3)  # longer than an opening takes: nothing may come
        assert not stream.flows
        assert not fake.readers
        assert handler.openings == 0

    try:
        await following(fake, act)
    finally:
        await fake.stop()


async def test_a_silent_stream_is_opened_again(runtime: FakeRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead stream and an idle node look the same."""
    monkeypatch.setattr("worker.poller.runtime.event_stream.SILENCE", timedelta(milliseconds=300))

    async def act(_: EventStream, handler: Taker) -> None:
        await handler.until(lambda: handler.openings >= 2)

    await following(runtime, act)
