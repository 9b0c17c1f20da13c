"""`tempolet stop NAMESPACE/POD [--grace-period N] [--force]`: let a pod that is going be down sooner.

An Update of the pod's workflow (`asking`). As with `kubectl delete`, no grace at all is asked for by --force only; even then a
container is sent its stop signal, and killed a second later.
"""

from datetime import timedelta

from proto.temporal import names
from proto.temporal.operator import PodStops, StopPod
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import ask_pod, operator
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.history.story_state import seconds


def grace_of(grace_period: int | None, *, force: bool) -> timedelta | None:
    """Read the two options; raises CommandFailed where they contradict each other (kubectl's own rules)."""
    if force and grace_period:
        raise CommandFailed("--force means a grace of 0: it does not go with --grace-period above 0", Exit.USAGE)
    if grace_period == 0 and not force:
        raise CommandFailed("--grace-period 0 leaves a container no time to end well: add --force", Exit.USAGE)
    if force:
        return timedelta()
    return None if grace_period is None else timedelta(seconds=grace_period)


def run(config: NodeConfig, selector: PodSelector, grace: timedelta | None) -> None:
    """Shorten the grace of a pod that goes; raises CommandFailed for one that does not."""
    answer = ask_pod(config, selector, StopPod(operator(), grace), update=names.STOP_POD, answer=PodStops)
    at = f"SIGKILL at {answer.kills_at.astimezone():%H:%M:%S} at the latest"
    if answer.sooner:
        print(printable(f"{selector}: its grace is over {seconds(answer.sooner)} sooner, {at}"))
    else:
        print(printable(f"{selector}: its grace is over by then anyway, {at}"))
