"""A run of outages: pods live on one node, Temporal goes away and comes back, and each pod must end as without that."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import PodSnapshot
from tests.node.away.led_pods import led_pods
from tests.node.away.outages.ledger import Ledger
from tests.node.away.outages.pod_lives import Life
from tests.node.away.outages.shapes import SHAPES
from tests.node.away.outages.temporal_outages import KINDS, Outage, copy_database
from tests.node.away.stopped_temporal import RETURNED
from tests.node.containerd_view import containers_of
from tests.node.tempolet_node import PATIENCE, TempoletNode
from tests.waiting import wait_until

LOOK_AGAIN: Final = 0.25
"""Seconds: a run of many pods leaves the machine to them."""
SETTLES_WITHIN: Final = 5 * PATIENCE
"""For thirty pods at once on a busy machine."""
AWAY: Final = "Temporal is away: this node leads its pods itself"
BACK: Final = '"Temporal is back"'
LED: Final = "leads a pod without Temporal"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run consists of; the same seed makes the same choices."""

    seed: int
    outages: Sequence[str]
    """Kinds, in order."""
    pods: int
    """Living at once, about."""
    pause: float = 3.0
    """Seconds of each part of an outage, on the average."""


@dataclass
class OutagesRun:
    """One run on one node."""

    node: TempoletNode
    ledger: Ledger
    plan: Plan
    lives: list[Life] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    """Containers of which two ran at once."""
    forgotten: set[str] = field(default_factory=set)
    """UIDs of pods that were gone before Temporal lost what it had."""
    _log_read: int = 0
    _away_now: bool = False
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((AWAY, LED, RETURNED), 0))

    def __post_init__(self) -> None:
        self._random = random.Random(self.plan.seed)
        self._began = time.monotonic()
        self._kinds: list[str] = []
        self._begun = 0
        """Outages."""
        self._lost = 0
        """The last outage after which Temporal had less than before."""

    def run(self) -> None:
        """Lead all outages, then let every pod settle, and delete it."""
        self._fill()
        self._until(self._all_begun, "every pod begun")  # what begins after an outage has not lived through it
        for number, kind in enumerate(self.plan.outages, 1):
            self._outage(number, kind, KINDS[kind])
        self.finish()

    def finish(self) -> None:
        """Let every pod reach its last stage, and delete it."""
        self._until(self._all_over, "every pod in its last stage")
        for life in self._alive():
            self._delete(life)
        self._until(lambda: not self.node.snapshots(), "every pod gone")
        self._until(self._all_returned, "every pod handed back")

    @property
    def away(self) -> int:
        """How often the node found Temporal away."""
        return self._counted(AWAY)

    @property
    def switches(self) -> int:
        """How often a pod was handed back."""
        return self._counted(RETURNED)

    def is_history_whole(self, life: Life) -> bool:
        """Report whether Temporal has everything of a pod: it was born after the last outage that lost something."""
        return not self._lost or life.born_in > self._lost

    def said(self, text: str) -> None:
        """Print what happens, and when."""
        print(f"{time.monotonic() - self._began:7.1f} s  {text}", flush=True)

    # --- one outage

    def _outage(self, number: int, kind: str, outage: Outage) -> None:
        draw, temporal = self._random, self.node.temporal
        self._fill()
        self._begun = number
        if "restored" in self.plan.outages and (number == 1 or draw.random() < 0.3):
            copy_database(temporal)  # it serves until the next one is taken
        self._live(draw.uniform(0, self.plan.pause))
        self.said(f"outage {number}: {kind}, {len(self._alive())} pods")
        outage.begin(temporal)
        if outage.loses_history:
            self._lost = number
            known = {uid for uids in self.ledger.uids().values() for uid in uids}
            self.forgotten |= known - {one.uid for one in self.node.snapshots()}
        self._birth(is_cut_short=draw.random() < 0.5)  # something is due
        self._until(self._is_away, f"outage {number} ({kind}) noticed")
        self._until(self._half_led, f"half of the pods led in outage {number} ({kind})")
        self._live(draw.uniform(0, 2 * self.plan.pause))
        outage.end(temporal)
        self._live(draw.uniform(0, self.plan.pause))
        if draw.random() < 0.75:  # else the next one may begin while pods are handed back
            self._until(self._all_returned, f"all pods handed back after outage {number} ({kind})")
        else:
            self._until(self._half_returned, "half of the pods handed back")

    def _live(self, seconds: float) -> None:
        """Let things happen to pods at random moments for some seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._random.expovariate(2)))  # the random moment is the point
            self._look()
            self._happen()

    def _happen(self) -> None:
        """Do something to one pod: the next act, or its deletion; the number of pods stays about the same."""
        can_act = [one for one in self._alive() if one.is_settled and not one.is_over]
        can_end = [one for one in self._alive() if one.is_over]
        wanted = self._random.random()
        if can_act and (wanted < 0.6 or not can_end):
            life = self._random.choice(can_act)
            self.said(f"  {life.name}: {life.go_on(self.node, self.ledger)}")
        elif can_end:
            self._delete(self._random.choice(can_end))
            if len(self._alive()) < self.plan.pods:
                self._birth(is_cut_short=self._random.random() < 0.15)

    def _fill(self) -> None:
        while len(self._alive()) < self.plan.pods:
            self._birth()

    def _birth(self, *, is_cut_short: bool = False) -> None:
        kinds = self._kinds
        if not kinds:  # each shape as often as any other
            kinds += sorted(SHAPES)
            self._random.shuffle(kinds)
        kind = kinds.pop()
        life = Life(f"{kind}-{len(self.lives)}", kind, is_cut_short, self._begun)
        self.lives.append(life)
        life.apply(self.node, self.ledger)
        self.said(f"  {life.name}: born{' for a short life' if is_cut_short else ''}")

    def _delete(self, life: Life) -> None:
        life.is_deleted = True
        self.node.remove(life.name)
        self.said(f"  {life.name}: deleted")

    # --- what there is

    def _alive(self) -> list[Life]:
        return [one for one in self.lives if not one.is_deleted]

    def _all_over(self) -> bool:
        for life in self._alive():
            if life.is_settled and not life.is_over:
                life.go_on(self.node, self.ledger)
        return all(one.is_over for one in self._alive())

    def _led(self) -> frozenset[str] | None:
        return led_pods(self.node.root_dir)

    def _is_away(self) -> bool:
        """Report whether the node has found Temporal away: since the last outage, if that has not ended for it yet."""
        self._read_log()
        return self._away_now

    def _all_begun(self) -> bool:
        begun = {one.name.removesuffix(f"-{self.node.name}") for one in self.node.snapshots()}
        return begun >= {one.name for one in self._alive()}

    def _half_led(self) -> bool:
        return len(self._led() or ()) >= self.plan.pods // 2

    def _all_returned(self) -> bool:
        return self._led() == frozenset()

    def _half_returned(self) -> bool:
        led = self._led()
        return led is not None and len(led) <= self.plan.pods // 2

    def _look(self) -> None:
        newest: dict[str, PodSnapshot] = {}
        for one in self.node.snapshots():
            name = one.name.removesuffix(f"-{self.node.name}")
            newest[name] = max(newest.get(name, one), one, key=lambda each: each.started_at)
        for life in self._alive():
            life.look(newest.get(life.name), self.ledger)
        self._count_containers()

    def _count_containers(self) -> None:
        running: set[tuple[str, str]] = set()
        for one in containers_of(self.node.containerd, ""):
            if one.state != cri.ContainerState.CONTAINER_RUNNING or "io.kubernetes.pod.uid" not in one.labels:
                continue
            key = (one.labels["io.kubernetes.pod.uid"], one.metadata.name)
            if key in running:
                self.doubled.append(f"{one.labels['io.kubernetes.pod.name']} {one.metadata.name}")
            running.add(key)

    def _until(self, holds: Callable[[], object], what: str) -> None:
        def looked() -> object:
            self._look()
            return holds()

        def told() -> str:
            open_lives = [
                f"{one.name}: stage {one.begun}, was in {one.reached}" for one in self._alive() if not one.is_over
            ]
            return f"{what}; {'; '.join(open_lives)}; led: {sorted(self._led() or ())}"

        wait_until(looked, told, SETTLES_WITHIN, looks=(LOOK_AGAIN, LOOK_AGAIN))

    def _counted(self, text: str) -> int:
        self._read_log()
        return self._counts[text]

    def _read_log(self) -> None:
        with (self.node.directory / "worker.log").open() as log:
            log.seek(self._log_read)
            new = log.read().rpartition("\n")[0]
            self._log_read += len(new.encode())
        for each in self._counts:
            self._counts[each] += new.count(each)
        if AWAY in new or BACK in new:
            self._away_now = new.rfind(AWAY) > new.rfind(BACK)
