"""Does the lead of a pod take messages, answer questions and go on, whatever it gets?"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.execution.in_process import InProcessActivities
from proto.temporal import names
from proto.temporal.activities.requests import PodRuntime, PulledImage
from proto.temporal.away import EntryKind
from proto.temporal.hardware.ledger import UNEXPECTED, AllocateHardware, ContainerAssignment, PodAssignment
from proto.temporal.node import ImageUse, NodeConfigured, NodeNews, NodeStart, PrepullImage, WatchImages
from proto.temporal.operator import SkipBackoff
from proto.temporal.pod import PodJson
from proto.temporal.signals import DeletionRequested, PodListed, PressureJudged, RuntimeChanged
from tests.patience import PATIENCE
from tests.worker.stand_in.world import MemoryJournal, World, at_once, copied
from worker.stand_in.in_process_driver import Targets
from worker.stand_in.loop_lead import Means, NotLed
from worker.stand_in.performing import converted
from worker.stand_in.pod_journal import PodJournal
from worker.stand_in.recovery import known_ends
from worker.stand_in.stand_in import NodeStandIn, RequestRefused, StandIn
from workflows.decide.containers.instances import UNKNOWN_REASON
from workflows.decide.versions import BEHAVIOURS, CURRENT_NODE

pytestmark = pytest.mark.jumping_clock
GOING = DeletionRequested("file", "ManifestRemoved", "web.yaml is gone")
SOON = 30.0
SKIP = SkipBackoff("root@node-1")


def plain_pod(**spec: Any) -> PodJson:
    """Build a pod with one container that runs on."""
    container = {"name": "web", "image": "busybox:1", "imagePullPolicy": "IfNotPresent"}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def quiet_world(pod: PodJson | None = None) -> World:
    """Return a node on which nothing fails and nothing exits."""
    world = World(0, pod or plain_pod(), faults=False)
    world.exits = False
    return world


async def led(world: World) -> tuple[StandIn, "asyncio.Task[Any]"]:
    """Lead a pod until it is ready."""
    lead = world.lead(world.start())
    await asyncio.sleep(SOON)
    assert world.led
    assert phase(world.led) == ("Running", "True")
    return world.led, lead


def phase(stand_in: StandIn) -> tuple[str, str]:
    """Return a pod's phase, and whether it is ready."""
    status = stand_in.pod_status()
    return status["phase"], next(one["status"] for one in status["conditions"] if one["type"] == "Ready")


async def crashed(world: World, stand_in: StandIn, times: int = 2) -> None:
    """Let the container crash so often, each time once it runs."""
    for _ in range(times):
        await asyncio.sleep(SOON)
        (live,) = world.model.live()
        world.model.now = world.clock()
        world.model.end(live.container_id, 1)
        await stand_in.deliver(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(live.container_id,)))
    await asyncio.sleep(1)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
async def test_a_whole_life(behaviour: int) -> None:
    """Of each behaviour: start, crash, restart, deletion; its story has all of it, and the cache its states."""
    world = quiet_world()
    lead = world.lead(replace(world.start(), behaviour=behaviour))
    assert world.led
    await crashed(world, world.led, 1)
    await asyncio.sleep(SOON)
    assert phase(world.led) == ("Running", "True")
    await world.led.deliver(names.DELETION_REQUESTED, GOING)
    outcome = await lead
    assert (outcome.restarts, outcome.reason) == (1, "ManifestRemoved")
    told = [(one.kind, one.name) for one in world.journal.stories]
    assert told.count((EntryKind.COMPLETED, names.START_CONTAINER)) == 2
    assert [name for kind, name in told if kind is EntryKind.SIGNALLED] == [
        names.RUNTIME_CHANGED,
        names.DELETION_REQUESTED,
    ]
    assert [one.restarts for one in world.snapshots][-1] == 1
    with pytest.raises(NotLed):
        await world.led.deliver(names.DELETION_REQUESTED, GOING)


async def test_a_signal_comes_as_json_too() -> None:
    """As from the worker's socket."""
    world = quiet_world()
    stand_in, lead = await led(world)
    await stand_in.deliver(names.DELETION_REQUESTED, {"source": "file", "reason": "ManifestRemoved"})
    assert (await lead).reason == "ManifestRemoved"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("Nonsense", {}, id="an-unknown-name"),
        pytest.param(names.RUNTIME_CHANGED, 17, id="another-type"),
        pytest.param(names.RUNTIME_CHANGED, object(), id="no-json"),
    ],
)
async def test_a_malformed_signal_is_dropped(name: str, value: Any) -> None:
    """It is counted, and the pod goes on."""
    world = quiet_world()
    stand_in, _ = await led(world)
    await stand_in.deliver(name, value)
    await asyncio.sleep(1)
    state = stand_in.hand_over()
    assert state.observed
    assert state.observed.dropped
    assert state.observed.dropped.count == 1


# --- requests of an operator


async def test_a_request_is_answered_once_it_is_decided_and_kept() -> None:
    """The back-off ends at once."""
    world = quiet_world()
    world.settings = replace(world.settings, max_container_restart_period=timedelta(minutes=5))
    stand_in, _ = await led(world)
    await crashed(world, stand_in)
    assert not world.model.live()
    assert stand_in.why_not(names.SKIP_BACKOFF, SKIP) is None
    answer = await stand_in.update(names.SKIP_BACKOFF, SKIP)
    assert answer.operator == "root@node-1"
    assert world.journal.flushed
    kept, _ = world.journal.states[world.journal.flushed - 1]
    assert kept.observed
    assert kept.observed.containers["web"].skipped_at
    await asyncio.sleep(1)
    assert world.model.live()
    assert [one.value["operator"] for one in world.journal.stories if one.kind is EntryKind.UPDATED] == ["root@node-1"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param(names.SKIP_BACKOFF, SKIP, "NoBackoff", id="there-is-no-back-off"),
        pytest.param(names.SKIP_BACKOFF, 17, "Malformed", id="another-type"),
        pytest.param("Nonsense", {}, "Malformed", id="an-unknown-name"),
    ],
)
async def test_a_request_is_refused(name: str, value: Any, reason: str) -> None:
    """Nothing of it is in the story."""
    world = quiet_world()
    stand_in, _ = await led(world)
    with pytest.raises(RequestRefused) as refused:
        await stand_in.update(name, value)
    assert refused.value.refusal.reason == reason
    assert EntryKind.UPDATED not in {one.kind for one in world.journal.stories}


async def test_it_explains_itself() -> None:
    """As the workflow does by its query."""
    world = quiet_world()
    stand_in, _ = await led(world)
    await crashed(world, stand_in)
    assert "CrashLoopBackOff" in str(stand_in.explain())


# --- the lead


async def test_after_a_defect_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the last decision; a signal that came meanwhile is not lost."""
    world = quiet_world()
    stand_in, lead = await led(world)

    def defective(_: Any) -> Any:
        raise ValueError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr("workflows.loops.pod_loop.pod_actions", defective)
        await stand_in.deliver(names.RUNTIME_CHANGED, RuntimeChanged("resync"))
        await asyncio.sleep(0.5)
        await stand_in.deliver(names.DELETION_REQUESTED, GOING)
        await asyncio.sleep(10)
        assert not lead.done()
    assert (await lead).reason == "ManifestRemoved"
    assert len([one for name, one in world.calls if name == names.START_CONTAINER]) == 1


async def test_a_lead_that_is_cancelled_ends() -> None:
    """The loop takes a cancel for an operator's and goes on; the process must be able to stop."""
    world = quiet_world()
    _, lead = await led(world)
    lead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(lead, PATIENCE)


async def test_a_pod_that_is_listed_again_starts_again() -> None:
    """Its next run is led, too."""
    world = quiet_world()
    stand_in, lead = await led(world)
    await stand_in.deliver(names.DELETION_REQUESTED, GOING)
    await stand_in.deliver(names.POD_LISTED, PodListed("file"))
    await asyncio.sleep(SOON)
    assert phase(stand_in) == ("Running", "True")
    assert not lead.done()
    assert len([one for name, one in world.calls if name == names.START_CONTAINER]) == 2


@pytest.mark.parametrize("behind", [60.0, -60.0], ids=["the-node-is-a-minute-late", "the-node-is-a-minute-early"])
async def test_the_clocks_of_server_and_node_differ(behind: float) -> None:
    """A pod in back-off is taken over by a clock that differs: nothing is restarted twice, and it comes up."""
    world = quiet_world()
    stand_in, lead = await led(world)
    await crashed(world, stand_in)
    state = copied(stand_in.hand_over())
    await lead
    world.behind = behind
    world.lead(state)
    await asyncio.sleep(70 + SOON)
    assert world.led
    assert phase(world.led) == ("Running", "True")
    assert len([one for name, one in world.calls if name == names.START_CONTAINER]) == 3


async def test_a_hook_that_ended_before_a_kill_does_not_run_again() -> None:
    """The state that was kept has it under way, the story has its end."""
    pod = plain_pod()
    pod["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["true"]}}}
    world = quiet_world(pod)
    _, lead = await led(world)
    kept = next(number for number, (one, _) in enumerate(world.journal.states) if names.RUN_HOOK in str(one.under_way))
    state, folded = world.journal.states[kept]
    ended = next(
        number
        for number, one in enumerate(world.journal.stories)
        if one.key.startswith("hook/") and one.kind is EntryKind.COMPLETED
    )
    assert folded <= ended
    lead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lead
    world.boot()
    world.lead(state, world.journal.stories[folded : ended + 1])
    await asyncio.sleep(SOON)
    assert world.led
    assert phase(world.led) == ("Running", "True")
    assert set(world.hooks_run.values()) == {1}


async def test_what_nobody_saw_is_found_at_the_takeover() -> None:
    """A container ends while nobody leads its pod, and no hint comes."""
    world = quiet_world()
    stand_in, lead = await led(world)
    state = copied(stand_in.hand_over())
    await lead
    world.model.now = world.clock()
    world.model.end(world.model.live()[0].container_id, 1)
    world.lead(state)
    await asyncio.sleep(SOON)
    assert world.model.live()


async def test_the_state_is_kept_before_anything_is_done() -> None:
    """Of a pod that is born while Temporal is away, too."""
    world = quiet_world()
    lead = world.lead(world.start())
    (kept, folded) = world.journal.states[0]
    assert (kept.pod, folded) == (world.pod, 0)
    lead.cancel()


async def test_frozen_it_takes_messages_and_begins_nothing() -> None:
    """What they ask for is done by the next driver."""
    world = quiet_world()
    stand_in, lead = await led(world)
    assert await stand_in.freeze(timedelta(seconds=1))
    await stand_in.deliver(names.DELETION_REQUESTED, GOING)
    await asyncio.sleep(SOON)
    assert world.model.live()
    state = copied(stand_in.hand_over())
    assert await lead is None
    with pytest.raises(NotLed):
        await stand_in.freeze(timedelta(seconds=1))
    assert (await world.lead(state)).reason == "ManifestRemoved"


async def test_what_a_lead_was_handed_is_handed_on_before_it_has_begun() -> None:
    """The lead changes twice in a moment, while a container is being started."""
    world = quiet_world()
    gate = world.held[names.START_CONTAINER] = asyncio.Event()
    lead = world.lead(world.start())
    await asyncio.sleep(SOON)
    for _ in range(2):
        assert world.led
        state = copied(world.led.hand_over())
        assert [one.name for one in state.under_way] == [names.START_CONTAINER]
        assert await lead is None
        lead = world.lead(state)
    gate.set()
    await asyncio.sleep(SOON)
    assert world.led
    assert phase(world.led) == ("Running", "True")


async def test_a_lead_tells_the_ends_that_it_begins_with() -> None:
    """The workflow task that has read them may never have been committed; ends of our own guess are left out."""
    world = quiet_world()
    stand_in, lead = await led(world)
    await crashed(world, stand_in)
    state = copied(stand_in.hand_over())
    await lead
    told, end = len(world.journal.stories), state.observed.containers["web"].exit
    lead = world.lead(state)
    await asyncio.sleep(1)
    lead.cancel()
    (one,) = converted(world.journal.stories[told].value, PodRuntime).containers
    assert (one.container_id, one.exit_code, one.attempt) == (end.container_id, 1, 1)
    state.observed.containers["web"].exit = replace(end, reason=UNKNOWN_REASON)
    assert not list(known_ends(state.observed, world.clock()))


async def test_what_must_end_does_not_end() -> None:
    """Then the pod is not handed back now, and goes on."""
    world = quiet_world()
    gate = world.held[names.START_CONTAINER] = asyncio.Event()
    world.lead(world.start())
    await asyncio.sleep(SOON)
    assert world.led
    assert not await world.led.freeze(timedelta(seconds=5))
    gate.set()
    await asyncio.sleep(SOON)
    assert phase(world.led) == ("Running", "True")


async def test_the_ledger_of_hardware_is_led_too() -> None:
    """A pod is given a CPU, another one is rejected, a third waits while the lead is handed over; the next lead has the ledger."""
    gate, asked = asyncio.Event(), list[str]()

    @activity.defn(name=names.ALLOCATE_HARDWARE)
    async def allocate(request: AllocateHardware) -> PodAssignment:
        metadata = request.pod["metadata"]
        asked.append(metadata["uid"])
        if metadata["uid"] == "rejected":
            raise ApplicationError("not enough cpus available", type=UNEXPECTED, non_retryable=True)
        if metadata["uid"] == "slow":
            await gate.wait()
        return PodAssignment("default", metadata["name"], {"c": ContainerAssignment(str(len(asked)))})

    async def nowhere(*_: Any) -> None:
        """Take no signal."""

    journal, targets = MemoryJournal(), Targets(lambda _: None, lambda *_: None, nowhere)

    def means(lead_id: str) -> Means:
        activities = InProcessActivities([allocate], [])
        return Means(activities, PodJournal(journal, "node/n", None, in_thread=at_once), targets, lead_id)

    def admit(uid: str, *counting: str) -> dict[str, Any]:
        pod = {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {}}
        return {"pod": pod, "counting": list(counting)}

    stand_in = NodeStandIn(NodeStart("n", CURRENT_NODE), means("1"))
    lead = asyncio.create_task(stand_in.lead())
    await stand_in.update(names.ADMIT, admit("a"))
    with pytest.raises(RequestRefused, match="not enough cpus"):
        await stand_in.update(names.ADMIT, admit("rejected", "a"))
    with pytest.raises(RequestRefused, match="its value is of another type"):
        await stand_in.update(names.ADMIT, 7)
    assert stand_in.node_status().assignments.keys() == {"a"}
    assert [one.name for one in journal.stories if one.kind is EntryKind.UPDATED] == [names.ADMIT]
    slow = asyncio.create_task(stand_in.update(names.ADMIT, admit("slow", "a")))
    await asyncio.sleep(SOON)
    assert not await stand_in.freeze(timedelta(seconds=1)), "what was begun ends first"
    gate.set()
    await slow
    assert await stand_in.freeze(timedelta(seconds=1))
    late = asyncio.create_task(stand_in.update(names.ADMIT, admit("late", "a", "slow")))
    await asyncio.sleep(SOON)
    state = stand_in.hand_over()
    assert await lead is None
    with pytest.raises(NotLed):
        await late
    following = NodeStandIn(copied(state), means("2"))
    lead = asyncio.create_task(following.lead())
    await following.update(names.ADMIT, admit("late", "a", "slow"))
    assert following.node_status().assignments.keys() == {"a", "slow", "late"}
    lead.cancel()


async def test_the_images_of_the_node_are_led_too() -> None:
    """The image watch begins, what is to be prepulled is pulled, and the watch goes on in the next lead."""
    watched, pulled = asyncio.Event(), []

    @activity.defn(name=names.WATCH_IMAGES)
    async def watch(_: WatchImages) -> ImageUse:
        watched.set()
        await asyncio.Event().wait()
        raise AssertionError

    @activity.defn(name=names.PREPULL_IMAGE)
    async def prepull(request: PrepullImage) -> PulledImage:
        pulled.append(request.image)
        return PulledImage("sha256:1")

    activities = InProcessActivities([watch, prepull], [])
    journal = MemoryJournal()

    def means(lead_id: str) -> Means:
        async def nowhere(*_: Any) -> None:
            """Take no signal."""

        targets = Targets(lambda _: None, lambda *_: None, nowhere)
        return Means(activities, PodJournal(journal, "node/n", None, in_thread=at_once), targets, lead_id)

    stand_in = NodeStandIn(NodeStart("n", CURRENT_NODE), means("1"))
    lead = asyncio.create_task(stand_in.lead())
    await stand_in.deliver(names.NODE_CONFIGURED, NodeConfigured(prepull=("busybox:1",)))
    decided = NodeNews(datetime.now(UTC), "DiskPressure begins")
    await stand_in.deliver(names.PRESSURE_JUDGED, PressureJudged((decided,)))
    await asyncio.sleep(1)
    assert decided in stand_in.node_status().news
    assert watched.is_set()
    assert pulled == ["busybox:1"]
    assert not stand_in.node_status().prepulling
    assert await stand_in.freeze(timedelta(seconds=1))
    state = stand_in.hand_over()
    assert await lead is None
    watched.clear()
    lead = asyncio.create_task(NodeStandIn(copied(state), means("2")).lead())
    await asyncio.sleep(1)
    assert watched.is_set()
    assert pulled == ["busybox:1"], "what was pulled is in the state"
    lead.cancel()
