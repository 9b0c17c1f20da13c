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
class Wanted:
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
    def parse(cls, text: str) -> "Wanted":
        """Read NAMESPACE/POD; raises CommandFailed."""
        namespace, slash, name = text.partition("/")
        if not slash or not namespace or not name or "/" in name:
            raise CommandFailed(f"{text!r}: write NAMESPACE/POD, for example default/{text.strip('/')}", Exit.USAGE)
        return cls(namespace, name)


@dataclass(slots=True)
class Life:
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


async def lives_of(client: Client, config: NodeConfig, wanted: Wanted) -> list[Life]:
    """Find the lives that are asked for; raises CommandFailed when there is none."""
    by_id: dict[str, Life] = {}
    async for one in executions(client, _conditions(config, wanted)):
        life = by_id.setdefault(one.id, Life(one.id, one.start_time))
        life.runs.append(one.run_id)
        life.newest = one.start_time
    if not by_id:
        instead = await _instead(client, config, wanted)
        why = instead or "`tempolet pods` lists those that are"
        kept = "" if instead else " (as far back as the Temporal namespace keeps histories)"
        raise CommandFailed(f"no pod {wanted} is or was here{kept}; {why}", Exit.NOT_FOUND)
    return choose(list(by_id.values()), wanted)


def _conditions(config: NodeConfig, wanted: Wanted) -> list[str]:
    found = [f"PodNamespace = {quoted(wanted.namespace)}", f"PodName = {quoted(wanted.name)}"]
    return found if wanted.node is None else [*found, f"PodNode = {quoted(config.node_name)}"]


async def _instead(client: Client, config: NodeConfig, wanted: Wanted) -> str:
    """Say why there is none of this name, or which the operator may mean."""
    full = replace(wanted, name=full_name(config, wanted.name))
    known = [one async for one in executions(client, _conditions(config, full))]
    return what_instead(config, wanted.namespace, wanted.name, full_name_known=bool(known))


def choose(lives: Sequence[Life], wanted: Wanted) -> list[Life]:
    """Pick the newest, the one asked for, or all; raises CommandFailed when there is none of that UID."""
    if wanted.every:
        return list(lives)
    if wanted.uid is None:
        return [max(lives, key=lambda life: life.newest)]
    found = [life for life in lives if life.pod.uid.startswith(wanted.uid)]
    if not found:
        known = ", ".join(life.pod.uid for life in lives)
        raise CommandFailed(f"no pod {wanted} has UID {wanted.uid}; known are {known}", Exit.NOT_FOUND)
    return found
