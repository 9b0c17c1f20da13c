"""Which pod an operator means by NAMESPACE/POD, and which of its lives Temporal knows.

Asked by the commands about one pod. Several lives where the pod was made anew under another UID; each is one workflow, found
by its search attributes, with the runs that it was continued in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from temporalio.client import Client

from proto.temporal.names import PodWorkflowId
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.temporal_access import executions, quoted
from worker.commands.access.unknown_pod import full_name, what_instead
from worker.daemon.config import NodeConfig
from worker.history.story_state import Story


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Which pod."""

    namespace: str
    name: str
    uid: str | None = None
    every: bool = False
    node: str | None = None
    """Only of this node; None: wherever it ran."""

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

    Visibility only says which runs there are, for it comes late; whether the pod is gone is for the history to say.
    """

    workflow_id: str
    newest: datetime
    """When the newest run began."""
    runs: list[str] = field(default_factory=list)
    story: Story = field(default_factory=Story)
    under_way: list[str] = field(default_factory=list)
    """What has not answered yet, with its tries."""

    @property
    def pod(self) -> PodWorkflowId:
        """Node, namespace, name and UID."""
        return PodWorkflowId.parse(self.workflow_id)


async def find_pods(client: Client, config: NodeConfig, selector: PodSelector) -> list[FoundPod]:
    """Find the lives that are asked for; raises CommandFailed when there is none."""
    by_id: dict[str, FoundPod] = {}
    async for one in executions(client, _conditions(config, selector)):
        life = by_id.setdefault(one.id, FoundPod(one.id, one.start_time))
        life.runs.append(one.run_id)
        life.newest = one.start_time
    if not by_id:
        instead = await _instead(client, config, selector)
        why = instead or "`tempolet pods` lists those that are"
        kept = "" if instead else " (as far back as the Temporal namespace keeps histories)"
        raise CommandFailed(f"no pod {selector} is or was here{kept}; {why}", Exit.NOT_FOUND)
    return choose(list(by_id.values()), selector)


def _conditions(config: NodeConfig, selector: PodSelector) -> list[str]:
    found = [f"PodNamespace = {quoted(selector.namespace)}", f"PodName = {quoted(selector.name)}"]
    return found if selector.node is None else [*found, f"PodNode = {quoted(config.node_name)}"]


async def _instead(client: Client, config: NodeConfig, selector: PodSelector) -> str:
    """Say why there is none of this name, or which the operator may mean."""
    full = replace(selector, name=full_name(config, selector.name))
    known = [one async for one in executions(client, _conditions(config, full))]
    return what_instead(config, selector.namespace, selector.name, full_name_known=bool(known))


def choose(lives: Sequence[FoundPod], selector: PodSelector) -> list[FoundPod]:
    """Pick the newest, the one asked for, or all; raises CommandFailed when there is none of that UID."""
    if selector.every:
        return list(lives)
    if selector.uid is None:
        return [max(lives, key=lambda life: life.newest)]
    found = [life for life in lives if life.pod.uid.startswith(selector.uid)]
    if not found:
        known = ", ".join(life.pod.uid for life in lives)
        raise CommandFailed(f"no pod {selector} has UID {selector.uid}; known are {known}", Exit.NOT_FOUND)
    return found
