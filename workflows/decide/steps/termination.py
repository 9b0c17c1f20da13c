"""How a pod goes: containers, sandbox, and, once it is deleted, every trace (pkg/kubelet/kubelet.go SyncTerminatingPod).

A pod that has finished by itself keeps its dead containers and logs until its source no longer lists it.
"""

from collections.abc import Iterator

from proto.kubernetes.resources.qos import qos_class
from proto.temporal.activities.requests import RemovePodDirectories, RemovePodSandbox, StopPodSandbox
from proto.temporal.pod import Lifecycle, Observed
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.shortening import shorten_stops
from workflows.decide.containers.termination_order import live_containers, stop_in_order
from workflows.decide.ending.grace import effective_grace
from workflows.decide.hooks.own_hooks import after_ends
from workflows.decide.situation import Situation, unless_backing_off


def prepare_termination(observed: Observed) -> None:
    """Take for a pod that goes: what failed may be half made and must be found, how often it failed delays no undoing."""
    if observed.eviction is None:  # else it was looked into then, and has begun nothing since
        # half made, or, with a history that was lost, not even read
        unseen = bool(observed.failures) or observed.sandbox is None or observed.runtime_stale
        observed.runtime_stale = unseen
        # a pod that has finished starts nothing any more
        observed.starts_in_doubt = observed.starts_in_doubt or (unseen and observed.finished_at is None)
    observed.failures.clear()


def termination_reason(situation: Situation) -> str:
    """Say who ends the pod and why."""
    why = situation.observed.deletion or situation.observed.eviction
    return f"{why.reason}: {why.message}" if why else "the pod has finished"


def is_stopping(situation: Situation) -> bool:
    """Say whether containers are being stopped and their grace still runs: a shorter one, or whose turn comes, can't wait."""
    return situation.observed.lifecycle is Lifecycle.TERMINATING and situation.now < effective_grace(situation).over_at


def stop_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Stop every container that still runs, sidecars last; what has ended has its postStop hook."""
    yield from after_ends(situation)
    yield from stop_in_order(situation, live_containers(situation), termination_reason(situation))
    yield from shorten_stops(situation, termination_reason(situation))


def stop_sandbox(situation: Situation) -> Iterator[Action | Wake]:
    """Give the pod's network back."""
    sandbox = situation.observed.sandbox
    if sandbox and not sandbox.stopped:
        yield from unless_backing_off(situation, StopPodSandbox(situation.key, sandbox.sandbox_id))


def remove_sandboxes(situation: Situation) -> Iterator[Action | Wake]:
    """Remove every sandbox of a deleted pod, and with each its containers."""
    observed = situation.observed
    if observed.deletion:
        newest = (observed.sandbox.sandbox_id,) if observed.sandbox else ()
        for sandbox_id in (*observed.old_sandboxes, *newest):
            yield from unless_backing_off(situation, RemovePodSandbox(situation.key, sandbox_id))


def remove_directories(situation: Situation) -> Iterator[Action | Wake]:
    """Remove a deleted pod's directories, logs and cgroup."""
    if situation.observed.deletion and not situation.observed.cleaned:
        yield from unless_backing_off(situation, RemovePodDirectories(situation.key, qos_class(situation.source)))
