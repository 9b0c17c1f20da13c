"""The life of one pod in a run of outages: which stage it has reached, what is done to it next, and what it must have been."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proto.pod_snapshot import PodSnapshot
from tests.node.away.outages.ledger import Ledger
from tests.node.away.outages.shapes import SHAPES, Act, Shape, Stage
from tests.node.containerd_view import container_pid
from tests.node.tempolet_node import TempoletNode


@dataclass
class Life:
    """One pod, under one name of a manifest."""

    name: str
    kind: str
    is_cut_short: bool = False
    """Whether it is deleted at any moment, without a look at its stage."""
    born_in: int = 0
    """The number of the last outage that had begun by then."""
    reached: int = -1
    """The last stage that it was seen in."""
    begun: int = 0
    """The stage that it was sent to."""
    is_deleted: bool = False
    last: dict[str, Any] = field(default_factory=dict)
    """The status of its last stage, before its deletion."""
    uid: str = ""
    """The newest that was seen."""

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return SHAPES[self.kind]

    @property
    def is_settled(self) -> bool:
        """Whether it has reached the stage that it was sent to."""
        return self.reached == self.begun

    @property
    def is_over(self) -> bool:
        """Whether nothing but its deletion is left."""
        return self.is_cut_short or (self.is_settled and self.begun == len(self.shape.stages) - 1)

    def look(self, snapshot: PodSnapshot | None, ledger: Ledger) -> None:
        """See whether it has reached its stage."""
        if snapshot is None or self.is_settled or self.is_deleted:
            return
        stage = self.shape.stages[self.begun]
        if stage.act == Act("edit") and snapshot.uid == self.uid:
            return
        if is_in(snapshot, stage) and _has_said_so(snapshot, self, ledger):
            self.reached, self.uid, self.last = self.begun, snapshot.uid, dict(snapshot.status)

    def go_on(self, node: TempoletNode, ledger: Ledger) -> str:
        """Do the next act to a pod that has settled; returns what was done."""
        self.begun += 1
        act = self.shape.stages[self.begun].act
        assert act
        match act.verb:
            case "kill":
                status = _status_of(self.last)[act.of]
                container_id = str(status["containerID"]).rpartition("/")[2]
                os.kill(container_pid(node.containerd, container_id), signal.SIGKILL)
            case "set":
                ledger.set_flag(self.name, act.of)
            case "unset":
                ledger.set_flag(self.name, act.of, present=False)
            case "edit":
                self.apply(node, ledger)
        return f"{act.verb} {act.of}".strip()

    def apply(self, node: TempoletNode, ledger: Ledger) -> None:
        """Write its manifest; after its birth an edited one."""
        manifest = self.shape.build(self.name, ledger)
        manifest["metadata"]["labels"] = {"edit": str(self.begun)}
        node.apply(manifest)


def is_in(snapshot: PodSnapshot, stage: Stage) -> bool:
    """Report whether a pod is in a stage, restart counts included."""
    restarts = {name: status["restartCount"] for name, status in _status_of(snapshot.status).items()}
    known = {name: count for name, count in restarts.items() if count}
    return (snapshot.phase, snapshot.ready, known) == (stage.phase, stage.is_ready, dict(stage.restarts))


def _has_said_so(snapshot: PodSnapshot, life: Life, ledger: Ledger) -> bool:
    """Report whether each container has said so many starts: a kill before that would leave one out."""
    lines, uids = ledger.lines(life.name), len(ledger.uids().get(life.name, []))
    return (
        uids == life.begun + 1
        if life.kind == "edited"
        else all(
            lines[f"{name} start"] == status["restartCount"] + 1 for name, status in _status_of(snapshot.status).items()
        )
    )


def _status_of(status: Mapping[str, Any]) -> dict[str, Any]:
    both = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return {one["name"]: one for one in both}
