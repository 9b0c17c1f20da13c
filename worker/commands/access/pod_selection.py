"""Which pod an operator means by NAMESPACE/POD, and which workflows Temporal has of it.

Used by the commands about one pod. There are several workflows if the pod was created again with another UID; each is
found by its search attributes, with all runs it was continued in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from temporalio.client import Client

from proto.temporal.names import PodWorkflowId
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.temporal_access import executions, quoted
from worker.commands.access.unknown_pod import full_name, suggestion
from worker.daemon.config import NodeConfig
from worker.history.sentences.story_state import Story


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Which pod."""

    namespace: str
    name: str
    uid: str | None = None
    every: bool = False
    node: str | None = None
    """Only on this node; None: on any node."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> "PodSelector":
        """Read NAMESPACE/POD; raises CommandFailed."""
        namespace, slash, name = text.partition("/")
        if not slash or not namespace or not name or "/" in name:
            raise CommandFailed(f"{text!r}: write NAMESPACE/POD, for example default/{text.strip('/')}", Exit.USAGE)
        return cls(namespace, name)


@dataclass(slots=True)
class FoundPod:
    """One pod of that name: all runs of one workflow, oldest first.

    Visibility is eventually consistent, so it only tells which runs there are; whether the pod is gone is read from the
    history.
    """

    workflow_id: str
    newest: datetime
    """When the newest run started."""
    runs: list[str] = field(default_factory=list)
    story: Story = field(default_factory=Story)
    under_way: list[str] = field(default_factory=list)
    """Activities that have not completed, with their attempts."""

    @property
    def pod(self) -> PodWorkflowId:
        """Node, namespace, name and UID."""
        return PodWorkflowId.parse(self.workflow_id)


async def find_pods(client: Client, config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    """Find the selected pods; raises CommandFailed if there is none."""
    by_id: dict[str, FoundPod] = {}
    async for one in executions(client, _conditions(config, selector)):
        life = by_id.setdefault(one.id, FoundPod(one.id, one.start_time))
        life.runs.append(one.run_id)
        life.newest = one.start_time
    if not by_id:
        instead = await _instead(client, config, selector)
        why = instead or "`tempolet pods` lists the present pods"
        kept = "" if instead else " (as far back as the Temporal namespace keeps histories)"
        raise CommandFailed(f"there is and was no pod {selector}{kept}; {why}", Exit.NOT_FOUND)
    return choose(list(by_id.values()), selector)


def _conditions(config: NodeConfig, selector: PodSelector) -> list[str]:
    found = [f"PodNamespace = {quoted(selector.namespace)}", f"PodName = {quoted(selector.name)}"]
    return found if selector.node is None else [*found, f"PodNode = {quoted(config.node_name)}"]


async def _instead(client: Client, config: NodeConfig, selector: PodSelector) -> str:
    """Return why there is no pod of this name, or which name may be meant."""
    full = replace(selector, name=full_name(config, selector.name))
    known = [one async for one in executions(client, _conditions(config, full))]
    return suggestion(config, selector.namespace, selector.name, full_name_known=bool(known))


def choose(lives: Sequence[FoundPod], selector: PodSelector) -> list[FoundPod]:
    """Pick the newest pod, the one with the UID, or all; raises CommandFailed if no pod has the UID."""
    if selector.every:
        return list(lives)
    if selector.uid is None:
        return [max(lives, key=lambda life: life.newest)]
    found = [life for life in lives if life.pod.uid.startswith(selector.uid)]
    if not found:
        known = ", ".join(life.pod.uid for life in lives)
        raise CommandFailed(f"no pod {selector} has UID {selector.uid}; known UIDs: {known}", Exit.NOT_FOUND)
    return found
