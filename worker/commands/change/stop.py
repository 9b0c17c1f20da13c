"""`tempolet stop NAMESPACE/POD [--grace-period N] [--force]`: shorten the grace period of a terminating pod.

An Update of the pod's workflow (`updates`). As with `kubectl delete`, a grace period of 0 needs --force; even then
containers get their stop signal, and are killed a second later.
"""

from datetime import timedelta

from proto.temporal import names
from proto.temporal.operator import PodStops, StopPod
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.change.updates import operator, update_pod
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable
from worker.history.sentences.story_state import seconds


def grace_of(grace_period: int | None, *, force: bool) -> timedelta | None:
    """Combine the two options; raises CommandFailed if they contradict each other (kubectl's rules)."""
    if force and grace_period:
        raise CommandFailed("--force means a grace period of 0: it excludes --grace-period above 0", Exit.USAGE)
    if grace_period == 0 and not force:
        raise CommandFailed("--grace-period 0 leaves containers no time to shut down: add --force", Exit.USAGE)
    if force:
        return timedelta()
    return None if grace_period is None else timedelta(seconds=grace_period)


def run(config: NodeConfig, selector: PodSelector, grace: timedelta | None) -> None:
    """Shorten the grace period of a terminating pod; raises CommandFailed if the pod is not terminating."""
    answer = update_pod(config, selector, StopPod(operator(), grace), update=names.STOP_POD, answer=PodStops)
    at = f"SIGKILL at {answer.kills_at.astimezone():%H:%M:%S} at the latest"
    if answer.sooner:
        print(printable(f"{selector}: its grace period ends {seconds(answer.sooner)} sooner, {at}"))
    else:
        print(printable(f"{selector}: its grace period ends before that anyway, {at}"))
