"""One node's workflow, generated from a seed: images appear, are removed and prepulled, pods get hardware, the configuration changes; it never ends itself."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowHistory,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from proto.temporal import names
from proto.temporal.activities.requests import PulledImage
from proto.temporal.hardware.ledger import UNEXPECTED, Admit, AllocateHardware, ContainerAssignment, PodAssignment
from proto.temporal.node import (
    DiskUse,
    ImageAge,
    ImagePolicy,
    ImageUse,
    NodeConfigured,
    NodeImage,
    NodeNews,
    NodeStart,
    PrepullImage,
    RemovedImage,
    RemoveImage,
    WatchImages,
)
from proto.temporal.signals import BehaviourCommitted, PressureJudged
from tests.replay.lives.drawn_life import OLDER
from workflows.decide.versions import NODE_BEHAVIOURS, NODE_GIVES_HARDWARE

DISK: Final = 100
"""Bytes."""
MANY: Final = 2050
AT_ONCE: Final = 25
LOOK: Final = 0.05
CPUS: Final = 8
REJECTED: Final = 0.2
FORGOTTEN: Final = 0.05
"""How likely the worker gives a CPU that another pod has."""


@dataclass
class Disk:
    """A node's images: name and size."""

    rng: Random
    sizes: dict[str, int] = field(default_factory=dict)
    fails: float = 0
    changes: int = 0


class FakeNodes:
    """The activities of all nodes, told apart by the calling workflow."""

    def __init__(self) -> None:
        self.disks: dict[str, Disk] = {}

    def activities(self) -> list[Callable[..., Any]]:
        """Return the activities."""
        return [self.watch_images, self.remove_image, self.prepull_image, self.allocate_hardware]

    def _disk(self, *, may_fail: bool = True) -> Disk:
        disk = self.disks[activity.info().workflow_id or ""]
        if may_fail and disk.rng.random() < disk.fails:
            retried = disk.rng.random() < 0.3
            raise ApplicationError("the runtime is away", type="RuntimeUnavailable", non_retryable=not retried)
        return disk

    @activity.defn(name=names.WATCH_IMAGES)
    async def watch_images(self, request: WatchImages) -> ImageUse:
        """Return when the disk is too full, or when that has changed."""
        disk = self._disk()
        while True:
            used = sum(disk.sizes.values())
            if (used >= request.policy.high_threshold_percent) is not request.too_full:
                break
            activity.heartbeat()
            await asyncio.sleep(LOOK)
        now = datetime.now(UTC)
        ages = {one.image_id: one for one in request.known}
        images = tuple(
            NodeImage(
                one,
                (f"{one}:1",),
                size,
                ages.get(one) or ImageAge(one, now - timedelta(hours=1)),
                in_use=one.startswith("used"),
                pinned=one == "pause",
            )
            for one, size in disk.sizes.items()
        )
        return ImageUse(now, DiskUse(DISK, max(DISK - used, 0)), images)

    @activity.defn(name=names.REMOVE_IMAGE)
    async def remove_image(self, request: RemoveImage) -> RemovedImage:
        """Remove an image, unless it is in use by now."""
        disk = self._disk()
        if disk.rng.random() < 0.1:
            return RemovedImage("default/web main")
        disk.sizes.pop(request.image_id, None)
        return RemovedImage()

    @activity.defn(name=names.PREPULL_IMAGE)
    async def prepull_image(self, request: PrepullImage) -> PulledImage:
        """Pull an image."""
        disk = self._disk()
        await asyncio.sleep(disk.rng.choice([0, 0.1]))
        present = request.image in disk.sizes
        disk.sizes[request.image] = 1
        return PulledImage(request.image, present=present, size_bytes=1, took=timedelta(milliseconds=100))

    @activity.defn(name=names.ALLOCATE_HARDWARE)
    async def allocate_hardware(self, request: AllocateHardware) -> PodAssignment:
        """Give a CPU that nobody has, or one that somebody has."""
        disk, metadata = self._disk(may_fail=False), request.pod["metadata"]
        await asyncio.sleep(disk.rng.choice([0, 0.1]))
        if disk.rng.random() < REJECTED:
            raise ApplicationError("not enough cpus available", type=UNEXPECTED, non_retryable=True)
        taken = {one.cpus for pod in request.assigned.values() for one in pod.containers.values()}
        free = [str(cpu) for cpu in range(CPUS) if str(cpu) not in taken or disk.rng.random() < FORGOTTEN]
        given = {"c": ContainerAssignment(disk.rng.choice(free))} if free else {}
        return PodAssignment(metadata["namespace"], metadata["name"], given, tuple(f"{one} has a CPU" for one in given))


@dataclass
class NodeLife:
    """One node with its workflow."""

    seed: int
    behaviour: int
    client: Client
    node: str
    nodes: FakeNodes
    first_run: str = ""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.name = f"{self.node}-{self.seed}"
        self.disk = Disk(Random(self.seed + 1), {"pause": 1}, self.rng.choice([0, 0, 0.1, 0.4]))
        self.nodes.disks[self.workflow_id] = self.disk
        self.pods: list[str] = []
        self.asking = set[asyncio.Task[None]]()
        older = self.behaviour > min(NODE_BEHAVIOURS) and Random(self.seed + 2).random() < OLDER
        self.begins_with = self.behaviour - older

    @property
    def workflow_id(self) -> str:
        """Return the ID of the node's workflow."""
        return names.node_workflow_id(self.name)

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """Return a handle to the newest run."""
        return self.client.get_workflow_handle(self.workflow_id)

    async def lead(self) -> None:
        """Run the node for a while, then terminate its workflow, which would run for ever."""
        await self.configured()
        for _ in range(self.rng.choice([3, 6, 10, 16])):
            await asyncio.sleep(self.rng.choice([0, 0.1, 0.3, 0.8]))
            (happening,) = self.rng.choices(
                [self.images_come, self.configured, self.cancelled, self.commit, self.judged, self.pods_come],
                [8, 3, 1, 1, 2, 6 if self.behaviour >= NODE_GIVES_HARDWARE else 0],
            )
            await happening()
        if self.seed % 10 == 7:
            for _ in range(MANY // AT_ONCE):
                await asyncio.gather(*(self.configured(same=True) for _ in range(AT_ONCE)))
            await self.configured()
        if self.disk.fails:
            await asyncio.sleep(11)  # the first delay of a prepull that has failed
        self.disk.fails = 0
        await asyncio.sleep(1)
        for one in self.asking:
            one.cancel()
        await self.handle.terminate("led long enough")

    async def configured(self, *, same: bool = False) -> None:
        """Start the workflow or signal it the node's configuration, as the poller does at each start."""
        rng = self.rng
        high = 85 if same else rng.choice([85, 85, 60, 95])
        age = None if same or rng.random() < 0.8 else timedelta(minutes=30)
        policy = ImagePolicy(high, high - 5, timedelta(0), age, look_every=timedelta(milliseconds=300))
        prepull = () if same else tuple(rng.sample(["a:1", "b:1", "c:1"], rng.randint(0, 3)))
        made = await self._started_or_told(NodeConfigured(policy, prepull))
        self.first_run = self.first_run or made.first_execution_run_id or ""

    async def _started_or_told(self, said: NodeConfigured) -> WorkflowHandle[Any, Any]:
        """Start the workflow, or signal the open one; retried while a run is being continued as new."""
        try:
            return await self._start(said)
        except RPCError:
            await asyncio.sleep(0.5)
            return await self._start(said)

    async def _start(self, said: NodeConfigured) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            names.NODE_WORKFLOW,
            NodeStart(self.name, self.begins_with),
            id=self.workflow_id,
            task_queue=names.node_task_queue(self.node),
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=names.NODE_CONFIGURED,
            start_signal_args=[said],
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), self.name)]
            ),
        )

    async def judged(self) -> None:
        """Tell of a decision under pressure, as the worker does."""
        news = NodeNews(datetime.now(UTC), f"DiskPressure begins: nodefs.available is {self.rng.randint(1, 99)}")
        with suppress(RPCError):  # a run is being continued as new, or its workflow is gone
            await self.handle.signal(names.PRESSURE_JUDGED, PressureJudged((news,)))

    async def pods_come(self) -> None:
        """Let some pods ask for hardware at once, after others have ended; one asks twice."""
        self.pods = [one for one in self.pods if self.rng.random() < 0.7]
        fresh = [f"pod-{self.rng.randrange(10**6)}" for _ in range(self.rng.choice([1, 1, 2, 4]))]
        self.pods += fresh
        for uid in (*fresh, self.rng.choice(self.pods)):
            task = asyncio.create_task(self.admitted(uid, tuple(self.pods)))
            self.asking.add(task)
            task.add_done_callback(self.asking.discard)

    async def admitted(self, uid: str, counting: tuple[str, ...]) -> None:
        """Ask once; what becomes of it is of no matter here."""
        pod = {"metadata": {"namespace": "default", "name": uid, "uid": uid}, "spec": {"containers": [{"name": "c"}]}}
        with suppress(RPCError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
            await self.handle.execute_update(names.ADMIT, Admit(pod, counting, "worker", self.rng.getrandbits(53)))

    async def images_come(self) -> None:
        """Add images, used or not, and remove others."""
        self.disk.changes += 1
        name = f"{self.rng.choice(['used', 'idle', 'idle'])}-{self.disk.changes}"
        self.disk.sizes[name] = self.rng.choice([5, 20, 40])
        for one in list(self.disk.sizes):
            if one.startswith("used") and self.rng.random() < 0.2:
                del self.disk.sizes[one]

    async def commit(self) -> None:
        """Commit the node to the newer behaviour, and ask the open run to move to it."""
        self.begins_with = self.behaviour
        await self.handle.signal(names.BEHAVIOUR_COMMITTED, BehaviourCommitted(self.behaviour))

    async def cancelled(self) -> None:
        """Cancel the workflow, which is ignored."""
        await self.handle.cancel()

    async def runs(self) -> list[WorkflowHistory]:
        """Fetch every run, in order."""
        found = []
        run_id = self.first_run
        while run_id:
            history = await self.client.get_workflow_handle(self.workflow_id, run_id=run_id).fetch_history()
            found.append(history)
            run_id = history.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return found
