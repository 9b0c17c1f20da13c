"""A pod's node in memory whose activities stop at one boundary, so that a fault happens there and nowhere else.

The same pod makes the same calls in the same order up to the fault, so a boundary is the number of a call and a moment in it.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from temporalio.exceptions import ApplicationError

from activities.execution.attempt import NotDelivered, current_attempt
from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.away import EntryKind
from proto.temporal.pod import ContainerState, PodJson, ProbeKind
from proto.temporal.signals import ProbeVerdict, RuntimeChanged
from tests.chaos.model.halfway_model import HalfwayModel, HookRun
from tests.worker.stand_in.world import BEGAN, World
from workflows.decide.actions import Action, key

HALF: Final = 0.02
"""Seconds from one moment of a call to the next."""

ENDS: Final = (EntryKind.COMPLETED, EntryKind.FAILED)


class Moment(StrEnum):
    """Where in a call a fault happens."""

    BEFORE = "before"
    MIDDLE = "in the middle"
    AFTER = "after the effect, before the answer"


@dataclass(frozen=True, slots=True)
class Boundary:
    """A moment of a call."""

    call: int
    """Its number; the first is 0."""
    moment: Moment


class HaltingWorld(World):
    """One pod; `exits` has, for each container, when and how its first instances end."""

    def __init__(
        self, pod: PodJson, exits: dict[str, tuple[tuple[float, int], ...]], boundary: Boundary | None
    ) -> None:
        super().__init__(0, pod, faults=False)
        self.ends, self.boundary = exits, boundary
        spec = self.pod["spec"]
        everyone = [*spec.get("initContainers", ()), *spec["containers"]]
        first = spec.get("initContainers", ())
        self.model: HalfwayModel = HalfwayModel(
            tuple(one["name"] for one in first),
            BEGAN,
            sidecars=tuple(one["name"] for one in first if "restartPolicy" in one),
            prestopped=frozenset(one["name"] for one in everyone if "preStop" in one.get("lifecycle", {})),
        )
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.passed: list[Boundary] = []
        """The boundaries that were reached: a call that is cancelled has no end, and a probe none either."""
        self.kills = False
        """The fault at the boundary ends the process, so that a call is broken off in its middle."""
        self.failing_probes: Counter[str] = Counter()
        """By container: how many of its instances fail their liveness probe."""
        self.hooks_now: Counter[HookRun] = Counter()
        self.begins: dict[int, asyncio.Event] = {}
        """Set when the call of this number begins."""

    async def act(self, name: str, request: Any) -> Any:
        """Carry out an action, with a stop at the boundary."""
        number = len(self.calls)
        self.calls.append((name, request))
        if number in self.begins:
            self.begins[number].set()
        await self._halt(number, Moment.BEFORE)
        match request:
            case requests.ProbeContainer():
                await self._halt(number, Moment.MIDDLE)
                return await self._probe(request)
            case requests.RunHook():
                return await self._hook(number, request)
        await asyncio.sleep(HALF)
        await self._halt(number, Moment.MIDDLE, request)
        await asyncio.sleep(HALF)
        answer = self._do(request)
        self.model.check(self.clock())
        if isinstance(request, requests.StartContainer):
            self._give_end(answer)
        await self._halt(number, Moment.AFTER)
        return answer

    async def _halt(self, number: int, moment: Moment, broken_off: Action | None = None) -> None:
        """Stop at the boundary until the fault is over."""
        self.passed.append(Boundary(number, moment))
        if self.boundary != Boundary(number, moment) or self.reached.is_set():
            return
        if self.kills and broken_off is not None:
            self.model.now = self.clock()
            try:
                self.model.half(broken_off)
            except AssertionError as defect:
                self.defects.append(f"{type(broken_off).__name__}: {defect}")
        self.reached.set()
        await self.go_on.wait()

    async def _hook(self, number: int, request: requests.RunHook) -> Any:
        """Run a hook for a second."""
        ledger = self.model.ledger
        one = (request.name, str(request.hook), key(request))
        ledger.hooked.append(one)
        self.hooks_now[one] += 1
        if self.hooks_now[one] > 1:
            ledger.broken.append(f"{request.hook} of {request.name} runs twice at once")
        try:
            await asyncio.sleep(HALF)
            await self._halt(number, Moment.MIDDLE)
            await asyncio.sleep(1)
            answer = self._do(request)
            await self._halt(number, Moment.AFTER)
        finally:
            self.hooks_now[one] -= 1
        return answer

    def break_off_hooks(self) -> None:
        """Write down which hooks' outcomes are not recorded now that the worker dies."""
        ledger, ended = self.model.ledger, Counter(one.key for one in self.journal.stories if one.kind in ENDS)
        for one, runs in Counter(ledger.hooked).items():
            if runs > ended[one[2]] + ledger.broken_off.count(one):
                ledger.broken_off.append(one)

    def _give_end(self, one: requests.RuntimeContainer) -> None:
        """Let a new container end as its shape says."""
        ends = self.ends.get(one.name, ())
        if one.container_id in self.fated or one.state is not ContainerState.RUNNING:
            return
        self.fated.add(one.container_id)
        if one.attempt < len(ends):
            self.begin(self._ends(one.container_id, *ends[one.attempt]))

    async def _probe(self, request: requests.ProbeContainer) -> None:
        """Tell a verdict for each kind, and wait for the container's end."""
        attempt = current_attempt()
        found = self.model.containers.get(request.container_id)
        fails = found is not None and found.attempt < self.failing_probes[request.name]
        for kind in ProbeKind:
            if kind.field in request.container and kind not in request.known:
                await asyncio.sleep(0.05)
                success = not (fails and kind is ProbeKind.LIVENESS)
                verdict = ProbeVerdict(request.name, request.container_id, kind, success=success, sequence=1)
                try:
                    await attempt.tell(names.PROBE_VERDICT, verdict)
                except NotDelivered:
                    raise ApplicationError("nobody leads", type="NotDelivered") from None
        if self.model.lives(request.container_id):
            await self.model.ended[request.container_id].wait()

    async def lose_sandbox(self) -> None:
        """Let the pause process die."""
        (one,) = self.model.ready()
        self.model.lose_sandbox(one.sandbox_id)
        await self.hint(RuntimeChanged("event", sandbox_lost=True))
