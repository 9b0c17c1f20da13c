"""One pod's node in memory, which does the same to the pod whoever leads it, and whenever the lead changes.

Each delay, failure, exit and verdict is drawn by the seed and what it is about, not in the order in which things happen. So a life with
switches must end as one without. The activities run through the registry of running actions, as in the worker.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.execution.attempt import NotDelivered, current_attempt
from activities.execution.attempts import AttachingAttempts
from activities.execution.in_process import InProcessActivities
from activities.execution.present_attempts import PresentAttempts
from activities.execution.running_actions import RunningActions
from proto.pod_snapshot import PodSnapshot
from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.activities.requests import RuntimeContainer
from proto.temporal.away import StoryEntry
from proto.temporal.pod import NodeSettings, PodJson, PodStart, ProbeKind
from proto.temporal.signals import ProbeVerdict, RuntimeChanged
from tests.replay.lives.drawn_pod import IMAGES, MISSING_IMAGE, draw_pod
from tests.workflows.decide.runtime_model import Refused, RuntimeModel
from worker.stand_in.in_process_driver import Targets
from worker.stand_in.loop_lead import Means
from worker.stand_in.performing import CONVERTER
from worker.stand_in.pod_journal import PodJournal
from worker.stand_in.stand_in import StandIn
from workflows.decide.actions import ACTIONS, Action, key
from workflows.decide.versions import CURRENT

Value = TypeVar("Value")
BEGAN: Final = datetime(2026, 5, 4, 12, tzinfo=UTC)
QUICK: Final = NodeSettings(
    max_container_restart_period=timedelta(seconds=4),
    image_backoff_initial=timedelta(seconds=1),
    image_backoff_max=timedelta(seconds=4),
    host_ips=("192.0.2.1",),
)
REASONS: Final[dict[type, str]] = {
    requests.RunPodSandbox: "FailedCreatePodSandBox",
    requests.PullImage: "ErrImagePull",
    requests.StartContainer: "CreateContainerError",
    requests.StopContainer: "FailedKillPod",
}
NEVER_FAIL: Final = (requests.ProbeContainer, requests.RunHook)
MOST_EXITS: Final = 3
"""Of one container; its next instance runs on."""


@dataclass
class MemoryJournal:
    """A journal in memory."""

    stories: list[StoryEntry] = field(default_factory=list)
    states: list[tuple[PodStart, int]] = field(default_factory=list)
    """Each with the position up to which the entries are in it."""
    synced: list[bool] = field(default_factory=list)
    """Of each entry, whether it was on disk when `append` returned."""
    flushed: int = 0
    """How many states there were at the last flush."""
    refuses: bool = False

    def keep(self, _workflow_id: str, start: PodStart, _place: Any, *, folded: int = 0) -> None:
        """Keep a copy."""
        self.states.append((copied(start), folded))

    def append(self, _workflow_id: str, entry: StoryEntry, *, batched: bool = False) -> int:
        """Append a copy; positions count from 1."""
        if self.refuses:
            raise OSError("the disk is full")
        self.stories.append(copied(entry))
        self.synced.append(not batched)
        return len(self.stories)

    def flush(self, _workflow_id: str, _timeout: timedelta) -> bool:
        """Report that all is written."""
        self.flushed = len(self.states)
        return True

    def newest(self) -> tuple[PodStart, list[StoryEntry]]:
        """Return the newest state and the entries after it."""
        start, folded = self.states[-1]
        return copied(start), [copied(one) for one in self.stories[folded:]]


def copied(value: Value) -> Value:
    """Write a value as JSON, and read it."""
    read: Value = CONVERTER.from_payloads(CONVERTER.to_payloads([value]), [type(value)])[0]
    return read


class World:
    """A pod, its runtime, and whoever leads it."""

    def __init__(self, seed: int, pod: PodJson | None = None, *, faults: bool = True, node: str = "node-1") -> None:
        self.seed, self.faults, self.node = seed, faults, node
        self.pace = 1.0
        """What durations are multiplied by."""
        self.pod = pod or draw_pod(Random(seed))
        self.pod["spec"].pop(
            "activeDeadlineSeconds", None
        )  # it would depend on time how often something restarts until then
        first = self.pod["spec"].get("initContainers", ())
        lasting = tuple(one["name"] for one in first if "restartPolicy" in one)
        self.model = RuntimeModel(tuple(one["name"] for one in first), BEGAN, sidecars=lasting)
        self.model.images = {image for image in IMAGES if self.chance("image", image) < 0.7}
        self.calls: list[tuple[str, Action]] = []
        """Everything that was begun."""
        self.begun: Counter[str] = Counter()
        """Works, by the key of their action."""
        self.failed: Counter[str] = Counter()
        self.defects: list[str] = []
        self.hooks_run: Counter[str] = Counter()
        self.fated: set[str] = set()
        self.fates: set[asyncio.Task[None]] = set()
        self.snapshots: list[PodSnapshot] = []
        self.journal = MemoryJournal()
        self.led: StandIn | None = None
        self.temporal: Callable[[str, Any], Awaitable[None]] | None = None
        """Signals the pod's workflow, if Temporal leads."""
        self.leads = 0
        self.led_from: list[tuple[PodStart, int]] = []
        """What each lead began with, and how many entries the story had then."""
        self.in_thread: Callable[..., Awaitable[Any]] = at_once
        self.settings, self.exits = QUICK, True
        self.behind = 0.0
        """Seconds by which the node's clock is late."""
        self.held: dict[str, asyncio.Event] = {}
        """By activity: its calls wait for this event."""
        self.functions = [self._function(kind, row.name, row.result) for kind, row in ACTIONS.items()]
        self.boot()

    def boot(self) -> None:
        """Begin a process: nothing of it runs yet."""
        self.running = RunningActions()
        attaching = AttachingAttempts(self.running, PresentAttempts())
        self.activities = InProcessActivities(self.functions, [attaching])

    # --- who leads

    def start(self) -> PodStart:
        """Return what the poller starts a pod with."""
        return PodStart(self.node, self.pod, path="web.yaml", behaviour=CURRENT, settings=self.settings)

    def lead(self, start: PodStart, tail: list[StoryEntry] | None = None) -> "asyncio.Task[Any]":
        """Lead the pod from now on."""
        self.leads += 1
        self.led_from.append((copied(start), len(self.journal.stories)))
        journal = PodJournal(
            self.journal, "pod/node-1/default/web/u", None, len(self.journal.stories), in_thread=self.in_thread
        )
        targets = Targets(self.snapshots.append, self.running.settled, self.deliver)
        means = Means(self.activities, journal, targets, f"lead {self.leads}", self.clock)
        self.led = StandIn(start, means, tail or ())
        return asyncio.create_task(self.led.lead())

    def clock(self) -> datetime:
        """Return the time, which the loop's clock decides."""
        return BEGAN + timedelta(seconds=asyncio.get_running_loop().time() - self.behind)

    async def deliver(self, _workflow_id: str, name: str, value: Any) -> None:
        """Take a signal to whoever leads; raises NotDelivered."""
        deliver = self.temporal or (self.led.deliver if self.led else None)
        if deliver is None:
            raise NotDelivered("nobody leads")
        try:
            await deliver(name, value)
        except Exception as error:
            raise NotDelivered("nobody leads") from error

    async def hint(self, signal: RuntimeChanged) -> None:
        """Send a hint, which is lost if nobody leads."""
        try:
            await self.deliver("", names.RUNTIME_CHANGED, signal)
        except NotDelivered:
            return

    # --- the activities

    def chance(self, *about: object) -> float:
        """Draw between 0 and 1."""
        return Random(f"{self.seed} {about}").random()

    def _function(self, kind: type, name: str, result: type | None) -> Callable[..., Any]:
        async def act(request: Any) -> Any:
            return await self.act(name, request)

        act.__annotations__ = {"request": kind, "return": result}
        act.__name__ = name
        return activity.defn(name=name)(act)

    async def act(self, name: str, request: Any) -> Any:
        """Carry out an action."""
        subject = named(request)
        self.calls.append((name, request))
        self.begun[subject] += 1
        if name in self.held:
            await self.held[name].wait()
        await asyncio.sleep((0.01 + 0.5 * self.chance("delay", subject, self.begun[subject]) ** 4) * self.pace)
        if isinstance(request, requests.PullImage) and MISSING_IMAGE in request.image:
            raise ApplicationError("not found", type="ErrImagePull", non_retryable=True)
        if self.faults and not isinstance(request, NEVER_FAIL):
            self._fail(subject, request)
        match request:
            case requests.ProbeContainer():
                return await self._probe(request)
            case requests.RunHook():
                self.hooks_run[f"{subject} {request.container_id or request.attempt}"] += 1
                await asyncio.sleep(self.pace)
        answer = self._do(request)
        if isinstance(request, requests.StartContainer):
            self._decide_fate(answer)
        return answer

    def _fail(self, subject: str, request: Action) -> None:
        """Fail a few times, before there is an effect."""
        wanted = int(3 * self.chance("failures", subject)) if self.chance("fails", subject) < 0.15 else 0
        if self.failed[subject] < wanted:
            self.failed[subject] += 1
            if self.chance("is retried", subject, self.failed[subject]) < 0.5:
                raise ApplicationError("no container runtime answers", type="RuntimeUnavailable")
            reason = REASONS.get(type(request), "UnexpectedError")
            raise ApplicationError(f"drawn for {subject}", type=reason, non_retryable=True)

    def _do(self, request: Action) -> Any:
        self.model.now = self.clock()
        try:
            return self.model.do(request)
        except Refused as refused:
            raise ApplicationError(str(refused), type="CreateContainerError", non_retryable=True) from None
        except AssertionError as defect:
            self.defects.append(f"{type(request).__name__}: {defect}")
            raise ApplicationError(str(defect), type="UnexpectedError", non_retryable=True) from None

    def _decide_fate(self, one: RuntimeContainer) -> None:
        """Let a new container exit after a while, or not."""
        if one.container_id in self.fated or not self.exits:
            return
        self.fated.add(one.container_id)
        is_init = one.name in self.model.init and one.name not in self.model.sidecars
        if is_init or (one.attempt < MOST_EXITS and self.chance("exits", one.name) < 0.5):
            draw = Random(f"{self.seed} exit {one.name} {one.attempt}")
            code = draw.choice([0, 0, 0, 0, 1] if is_init else [0, 1, 42, 137])
            self.begin(self._ends(one.container_id, draw.choice([0.02, 0.5, 3, 20]), code))

    async def _ends(self, container_id: str, seconds: float, code: int) -> None:
        await asyncio.sleep(seconds * self.pace)
        if self.model.lives(container_id):
            self.model.now = self.clock()
            self.model.end(container_id, code)
            await self.hint(RuntimeChanged("event", exited=(container_id,)))

    def begin(self, work: Any) -> None:
        """Run something beside."""
        task = asyncio.create_task(work)
        self.fates.add(task)
        task.add_done_callback(self.fates.discard)

    async def _probe(self, request: requests.ProbeContainer) -> None:
        """Tell the verdicts until the container has ended."""
        attempt = current_attempt()
        for kind in ProbeKind:
            if kind.field in request.container and kind not in request.known:
                await asyncio.sleep(0.05)
                verdict = ProbeVerdict(request.name, request.container_id, kind, success=True, sequence=1)
                try:
                    await attempt.tell(names.PROBE_VERDICT, verdict)
                except NotDelivered:
                    return
        while self.model.lives(request.container_id):  # noqa: ASYNC110 - the model has no event
            await asyncio.sleep(0.1)


def named(request: Action) -> str:
    """Name an action by what it is about, without ids that count."""
    match request:
        case requests.StartContainer():
            return f"start {request.container['name']} {request.attempt}"
        case requests.RunHook():
            return f"hook {request.name} {request.hook} {request.container_id.rpartition('-')[0]}"
        case requests.StopContainer() | requests.ShortenStop() | requests.RemoveContainer():
            return f"{type(request).__name__} {request.container_id.rpartition('-')[0]}"
        case _:
            return f"{type(request).__name__} {key(request)}"


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without a thread."""
    return function(*arguments)
