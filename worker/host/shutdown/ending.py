"""Ends the pods of a machine that goes down: group after group, each with its grace period.

Which pods form a group is decided by `workflows/decide/shutdown/groups.py`. Each pod is ended by its own workflow, or by the worker where it leads the pod
(`Ask`), and the next group begins when nothing of this one is left, volumes included, or when its seconds are over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from activities.files.mounts import folders_with_mounts
from proto.pod_snapshot import PodSnapshot, is_active, is_terminating
from proto.temporal.operator import GOING, EvictPod, StopPod
from proto.temporal.pod import Lifecycle
from worker.delivery.pod_requests import UNANSWERED, PodRequests
from workflows.decide.shutdown.groups import Group, ending_pod, grace_seconds, ordered
from workflows.decide.shutdown.periods import Period
from workflows.decide.shutdown.words import MESSAGE, REASON

OPERATOR: Final = "node shutdown"
_LOOK: Final = 0.1
"""Seconds between looks at what is left (the kubelet's WaitForAllPodsUnmount looks as often)."""
_AGAIN: Final = 1.0
"""Seconds until a pod is asked again that nobody answered for."""
_TAKEN_WITHIN: Final = 1.0
"""Seconds for the last requests."""

_log: Final = structlog.get_logger(__name__)


class NotAnswered(Exception):
    """Neither Temporal nor the worker has taken a request."""


Ask = Callable[[str, EvictPod | StopPod], Awaitable[str]]
"""Asks the pod of a workflow id; returns the reason of a refusal, or "". Raises NotAnswered."""


class Node(NamedTuple):
    """What an end works with."""

    root_dir: Path
    snapshots: Callable[[], Iterable[PodSnapshot]]
    pod_of: Callable[[PodSnapshot], Mapping[str, Any]]
    """Returns the pod of a snapshot as its source has it."""
    ask: Ask


def asking(requests: PodRequests) -> Ask:
    """Return what asks pods by these requests."""

    async def ask(workflow_id: str, asked: EvictPod | StopPod) -> str:
        try:
            rejection = await requests.ask(workflow_id, asked)
        except UNANSWERED as error:
            raise NotAnswered(str(error) or type(error).__name__) from error
        return rejection.reason if rejection else ""

    return ask


async def end_pods(node: Node, periods: Sequence[Period]) -> None:
    """End all active pods; cancelled in between, it leaves the groups that have not begun alone."""
    active = {one.uid: one for one in node.snapshots() if is_active(one)}
    asking: list[asyncio.Task[None]] = []
    try:
        for group in ordered(periods, (ending_pod(node.pod_of(one)) for one in active.values())):
            said = {"priority": group.period.priority, "seconds": group.period.seconds}
            _log.info("ending pods before the machine goes down", pods=len(group.pods), **said)
            mine = [asyncio.create_task(_end(node, active[one.uid], grace_seconds(group, one))) for one in group.pods]
            asking += mine
            try:
                async with asyncio.timeout(group.period.seconds):
                    await asyncio.wait(mine)
                    await _gone(node, group)
            except TimeoutError:
                _log.warning("the time of a group of pods is over", left=sorted(_left(node, group)), **said)
        if asking:
            await asyncio.wait(asking, timeout=_TAKEN_WITHIN)  # a group without seconds is told all the same
    finally:
        for one in asking:
            one.cancel()


def pod_of(snapshot: PodSnapshot) -> Mapping[str, Any]:
    """Return the pod of a snapshot; one that an earlier release wrote down without has the default priority."""
    return snapshot.pod or {"metadata": {"uid": snapshot.uid}, "spec": {}}


async def _end(node: Node, pod: PodSnapshot, seconds: int) -> None:
    """Have one pod end; one that terminates already gets no longer than this."""
    grace = timedelta(seconds=seconds)
    stop, evict = StopPod(OPERATOR, grace), EvictPod(OPERATOR, REASON, MESSAGE, grace, shutdown=True)
    asked: StopPod | EvictPod = stop if is_terminating(pod) else evict
    while True:
        try:
            why = await node.ask(pod.workflow_id, asked)
        except NotAnswered as error:
            _log.warning("nobody takes that a pod is to end; trying again", podUID=pod.uid, err=str(error))
            await asyncio.sleep(_AGAIN)
            continue
        if why == GOING and asked is evict:
            asked = stop
            continue
        if why:
            _log.info("a pod needs no end", pod=f"{pod.namespace}/{pod.name}", podUID=pod.uid, reason=why)
        return


async def _gone(node: Node, group: Group) -> None:
    while await asyncio.to_thread(_left, node, group):  # noqa: ASYNC110 - the kernel tells nobody that a mount is gone
        await asyncio.sleep(_LOOK)


def _left(node: Node, group: Group) -> set[str]:
    """Return the pods of a group of which something is left: what runs, or a mounted volume."""
    uids = {one.uid for one in group.pods}
    running = {one.uid for one in node.snapshots() if one.uid in uids and one.lifecycle != Lifecycle.TERMINATED}
    return running or mounted(node.root_dir, uids)


def mounted(root_dir: Path, uids: Iterable[str]) -> set[str]:
    """Return those pods below whose folders something is mounted."""
    try:
        return set(uids) & folders_with_mounts(root_dir / "pods")
    except OSError:
        return set()
