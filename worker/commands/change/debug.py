"""`tempolet debug NAMESPACE/POD --image IMAGE -- COMMAND...`: inspect a running pod with an ephemeral container.

An Update of the pod's workflow (`updates`). What the API would refuse is refused with its field path. The container is
started once and stopped with the pod; its output is in a log file like any container's.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from activities.files.pod_paths import PodPaths
from proto.temporal import names
from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from proto.temporal.pod import PodJson, PodKey
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import operator, update_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable

_NAME_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of Kubernetes' random names (apimachinery util/rand): they spell no words."""


@dataclass(frozen=True, slots=True)
class DebugContainer:
    """The ephemeral container to add."""

    image: str
    name: str = ""
    target: str = ""
    env: tuple[str, ...] = ()
    """Each K=V."""
    command: tuple[str, ...] = ()


def run(config: NodeConfig, selector: PodSelector, container: DebugContainer) -> None:
    """Add the container and print the path of its log; raises CommandFailed if it is refused."""
    asked = AddEphemeralContainer(operator(), ephemeral_container(container))
    added = update_pod(config, selector, asked, update=names.ADD_EPHEMERAL_CONTAINER, answer=EphemeralContainerAdded)
    into = f", which sees the processes of {added.target}" if added.target else ""
    print(printable(f"added ephemeral container {added.container} of {added.image} to {selector}{into}"))
    if added.waits_for:
        print(printable(f"it starts later: {added.waits_for}"))
    print(f"its log: {log_of(config, PodKey(selector.namespace, selector.name, added.pod_uid), added.container)}")


def log_of(config: NodeConfig, pod: PodKey, container: str) -> str:
    """Return the path of its log; only the part below podLogsDir if that is not known to this command."""
    paths = PodPaths(config.root_dir, config.pod_logs_dir, pod)
    log = paths.container_logs(container) / "0.log"
    return str(log) if paths.logs.is_dir() else f"{log.relative_to(config.pod_logs_dir)} below the node's podLogsDir"


def ephemeral_container(container: DebugContainer) -> PodJson:
    """Build the entry of spec.ephemeralContainers; raises CommandFailed for a variable without a value."""
    spec: PodJson = {
        "name": container.name or f"debugger-{''.join(secrets.choice(_NAME_CHARACTERS) for _ in range(5))}"
    }
    spec["image"] = container.image
    if container.command:
        spec["command"] = list(container.command)
    if container.env:
        spec["env"] = [variable(one) for one in container.env]
    if container.target:
        spec["targetContainerName"] = container.target
    return spec


def variable(text: str) -> PodJson:
    """Parse K=V; raises CommandFailed."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandFailed(f"--env {text}: write NAME=VALUE", Exit.USAGE)
    return {"name": name, "value": value}
