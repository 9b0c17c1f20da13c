"""One pod's life, generated from a seed, from its first listing until nothing of it is left; its runs are then fetched.

The events come from `happenings`; here are the start (a pod of a manifest or of the API, with its earlier status), the loss of a
history, and the end. The same seed draws the same pod and the same events; their timing relative to each other depends on
the clock, so a life is recorded once and kept.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowHistory
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from proto.temporal import names
from proto.temporal.pod import NodeSettings, PodJson, PodStart
from proto.temporal.pod_inputs import Ended, FirstSight, GivenCondition, Rejected
from proto.temporal.resources import Allocatable
from proto.temporal.signals import BehaviourCommitted, DeletionRequested, PodListed
from tests.replay.lives.drawn_pod import GATE, IMAGES, draw_pod
from tests.replay.lives.fake_runtime import FakePod, FakeRuntime, FaultRates
from tests.workflows.decide.runtime_model import RuntimeModel
from workflows.decide.versions import BEHAVIOURS

LOOK: Final = 0.05
"""Seconds between two polls."""
OLDER: Final = 0.2
"""Chance that a pod starts with the previous behaviour, until its node is committed to the newer one."""
END_WITHIN: Final = 240
"""Seconds until a deleted pod that is not gone is reported and terminated."""


@dataclass
class DrawnLife:
    """One pod with its workflow and its runtime."""

    seed: int
    behaviour: int
    client: Client
    node: str
    runtime: FakeRuntime
    rng: Random = field(init=False)
    pod: PodJson = field(init=False)
    """The pod as first listed."""
    listed: PodJson = field(init=False)
    """The pod as its source lists it now."""
    fake: FakePod = field(init=False)
    starts: list[str] = field(default_factory=list)
    """The first run of each workflow in this life."""
    sequence: int = 0
    begins_with: int = field(init=False)
    """The behaviour of the runs that the poller starts."""
    patience: float = 1
    """Factor of all waits: on a busy machine the pod does less meanwhile."""

    def __post_init__(self) -> None:
        self.rng = rng = Random(self.seed)
        self.pod = self.listed = draw_pod(rng)
        older = self.behaviour > min(BEHAVIOURS) and Random(self.seed + 2).random() < OLDER
        self.begins_with = self.behaviour - older
        self.from_api = rng.random() < 0.35
        self.settings = _settings(rng)
        first = tuple(one["name"] for one in self.pod["spec"].get("initContainers", ()))
        lasting = [one["name"] for one in self.pod["spec"].get("initContainers", ()) if "restartPolicy" in one]
        model = RuntimeModel(first, datetime.now(UTC), sidecars=tuple(lasting))
        model.images = {image for image in IMAGES if rng.random() < 0.7}
        model.stopped_with = Random(self.seed + 3).choice([143, 143, 0])
        fault_rates = FaultRates(
            fails=rng.choice([0, 0, 0, 0.03, 0.1, 0.25]),
            slow=rng.choice([0, 0, 0.1, 0.3]),
            again=rng.choice([0, 0, 0, 0.1]),
            ends=rng.choice([0, 0, 0.2, 0.5, 1]),
        )
        self.fake = FakePod(self.client, self.workflow_id, self.pod, Random(self.seed + 1), fault_rates, model)
        self.runtime.pods[self.pod["metadata"]["uid"]] = self.fake

    @property
    def workflow_id(self) -> str:
        """Return the ID of the pod's workflow."""
        meta = self.pod["metadata"]
        return str(names.PodWorkflowId(self.node, meta["namespace"], meta["name"], meta["uid"]))

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """Return a handle to the newest run."""
        return self.client.get_workflow_handle(self.workflow_id)

    @property
    def source(self) -> str:
        """Return the pod's source."""
        return names.API_SOURCE if self.from_api else "file"

    # --- start and end

    async def begin(self, first_sight: FirstSight | None = None) -> None:
        """Start the pod's workflow as the poller does."""
        keyword = SearchAttributeKey.for_keyword
        meta = self.pod["metadata"]
        pairs = {
            "PodNamespace": meta["namespace"],
            "PodName": meta["name"],
            "PodUID": meta["uid"],
            "PodNode": self.node,
        }
        start = PodStart(
            self.node,
            self.listed,
            self.source,
            path="" if self.from_api else "web.yaml",
            behaviour=self.begins_with,
            settings=self.settings,
            first_sight=(first_sight or FirstSight()) if self.from_api else None,
        )
        made = await self.client.start_workflow(
            names.POD_WORKFLOW,
            start,
            id=self.workflow_id,
            task_queue=names.node_task_queue(self.node),
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(keyword(name), value) for name, value in pairs.items()]
            ),
            start_signal=names.POD_LISTED,
            start_signal_args=[PodListed(self.source, self.counted())],
        )
        assert made.first_execution_run_id
        self.starts.append(made.first_execution_run_id)

    def counted(self) -> int:
        """Return the next resource version: the API has one, a manifest folder does not."""
        self.sequence += 1
        return self.sequence if self.from_api else 0

    def seen_before(self) -> FirstSight:
        """Draw the pod's status in the API at its first listing."""
        rng, now = self.rng, datetime.now(UTC)
        return FirstSight(
            ended=Ended(rng.choice(["Succeeded", "Failed"]), "NodeLost", "") if rng.random() < 0.12 else None,
            rejected=Rejected("OutOfcpu", "Node didn't have enough resource: cpu") if rng.random() < 0.12 else None,
            started_at=now - timedelta(seconds=60) if rng.random() < 0.2 else None,
            deleted=rng.random() < 0.06,
            grace=rng.choice([None, timedelta(seconds=2)]),
            conditions={GATE: GivenCondition("True", now)} if rng.random() < 0.2 else {},
        )

    async def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until something holds, or for this many seconds; a busy machine runs the same life, only slower."""
        over = asyncio.get_running_loop().time() + seconds * self.patience
        while not holds() and asyncio.get_running_loop().time() < over:  # noqa: ASYNC110 - what is polled has no event
            await asyncio.sleep(LOOK)

    async def calm(self) -> None:
        """Wait until every container has started, or will not start."""
        wanted = len(self.pod["spec"]["containers"])
        await self.until(lambda: sum(one.name.startswith("main") for one in self.fake.model.live()) == wanted, 20)

    async def go_on(self, actions: int) -> None:
        """Wait for this many more actions, or until none has been called for a while."""
        before = self.fake.asked
        await self.until(lambda: self.fake.asked >= before + actions, self.rng.choice([0.5, 1, 2]))

    async def commit(self) -> None:
        """Commit the node to the newer behaviour: new runs start with it, and the open run is asked to move to it."""
        self.begins_with = self.behaviour
        await self.fake.tell(names.BEHAVIOUR_COMMITTED, BehaviourCommitted(self.behaviour))

    async def lose_history(self) -> None:
        """Let Temporal lose the pod's history, and the source list the pod again."""
        try:
            await self.handle.terminate("its history is lost")
        except RPCError:
            return
        self.fake.model.forgotten = True
        since = datetime.now(UTC) - timedelta(seconds=60)
        await self.begin(FirstSight(started_at=since, deleted=self.rng.random() < 0.15))

    async def is_over(self) -> bool:
        """Return whether the workflow has ended."""
        described = await self.handle.describe()
        return described.status is not WorkflowExecutionStatus.RUNNING

    async def say_deleted(self, grace: timedelta | None = None) -> None:
        """Let the source delete the pod."""
        grace = grace or self.rng.choice([None, None, timedelta(0), timedelta(seconds=1), timedelta(seconds=100)])
        said = ("PodDeleted", "its object was deleted") if self.from_api else ("ManifestRemoved", "web.yaml is gone")
        request = DeletionRequested(self.source, *said, grace=grace, sequence=self.counted())
        await self.fake.tell(names.DELETION_REQUESTED, request)

    async def end(self) -> bool:
        """Delete the pod and wait until its workflow has ended; False if it had to be terminated."""
        over = asyncio.get_running_loop().time() + END_WITHIN * self.patience
        while not await self.is_over():
            self.fake.ignores_sigterm = False
            if asyncio.get_running_loop().time() > over:
                await self.handle.terminate("it does not end")
                return False
            await self.say_deleted()
            await self._ended_soon(3 if self.fake.fault_rates.fails else 6)
            self.fake.fault_rates.settle()
        return True

    async def _ended_soon(self, seconds: float) -> None:
        for _ in range(int(seconds * self.patience * 4)):
            if await self.is_over():
                return
            await asyncio.sleep(0.25)

    # --- results

    async def runs(self) -> list[WorkflowHistory]:
        """Fetch every run of every workflow in this life, in order."""
        found = []
        for first in self.starts:
            run_id = first
            while run_id:
                history = await self.client.get_workflow_handle(self.workflow_id, run_id=run_id).fetch_history()
                found.append(history)
                run_id = history.events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return found


def _settings(rng: Random) -> NodeSettings:
    """Draw a node's settings: mostly with short back-offs, seldom with ones that an operator has to skip."""
    quick = rng.random() < 0.9
    return NodeSettings(
        max_container_restart_period=timedelta(milliseconds=300) if quick else timedelta(seconds=300),
        image_backoff_initial=timedelta(milliseconds=200) if quick else timedelta(seconds=10),
        image_backoff_max=timedelta(milliseconds=400) if quick else timedelta(seconds=300),
        host_ips=("192.0.2.1",),
        container_stop_signals=rng.random() < 0.5,
        allocatable=Allocatable(8000, 2**33) if rng.random() < 0.7 else None,
        kernel=rng.choice(["", "6.1"]),
        image_volume_with_digest=rng.random() < 0.3,
    )
