"""How a pod terminates: containers, sandbox and, once deleted, all the rest (pkg/kubelet/kubelet.go SyncTerminatingPod).

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
from workflows.decide.steps.claims import may_have_claims


def prepare_termination(observed: Observed) -> None:
    """The pod is terminating: re-read the runtime to find half-finished work, and clear retry delays."""
    if observed.eviction is None:  # else the eviction already did this, and nothing began since
        # half-finished, or the history was lost and nothing was read yet
        unseen = bool(observed.failures) or observed.sandbox is None or observed.runtime_stale
        observed.runtime_stale = unseen
        # a pod that has finished starts nothing
        observed.starts_in_doubt = observed.starts_in_doubt or (unseen and observed.finished_at is None)
    observed.failures.clear()


def termination_reason(situation: Situation) -> str:
    """Say who terminates the pod and why."""
    why = situation.observed.deletion or situation.observed.eviction
    return f"{why.reason}: {why.message}" if why else "the pod has finished"


def is_stopping(situation: Situation) -> bool:
    """Report whether containers are being stopped and the grace period is not over: continue-as-new must not delay that."""
    return situation.observed.lifecycle is Lifecycle.TERMINATING and situation.now < effective_grace(situation).over_at


def stop_containers(situation: Situation) -> Iterator[Action | Wake]:
    """Stop every container that still runs, sidecars last, and run the postStop hooks of those that have ended."""
    yield from after_ends(situation)
    yield from stop_in_order(situation, live_containers(situation), termination_reason(situation))
    yield from shorten_stops(situation, termination_reason(situation))


def stop_sandbox(situation: Situation) -> Iterator[Action | Wake]:
    """Stop the sandbox, which releases the pod's network."""
    sandbox = situation.observed.sandbox
    if sandbox and not sandbox.stopped:
        yield from unless_backing_off(situation, StopPodSandbox(situation.key, sandbox.sandbox_id))


def is_released(situation: Situation) -> bool:
    """Report whether nothing of the pod runs, and neither its network nor a volume nor a prepared claim is left (PodResourcesAreReclaimed)."""
    observed = situation.observed
    unmounted = observed.volumes_undone or not situation.source["spec"].get("volumes")
    stopped = observed.sandbox is None or observed.sandbox.stopped
    return observed.lifecycle is Lifecycle.TERMINATED and unmounted and stopped and not may_have_claims(situation)


def remove_sandboxes(situation: Situation) -> Iterator[Action | Wake]:
    """Remove every sandbox of a deleted pod, and with it its containers."""
    observed = situation.observed
    if observed.deletion:
        newest = (observed.sandbox.sandbox_id,) if observed.sandbox else ()
        for sandbox_id in (*observed.old_sandboxes, *newest):
            yield from unless_backing_off(situation, RemovePodSandbox(situation.key, sandbox_id))


def remove_directories(situation: Situation) -> Iterator[Action | Wake]:
    """Remove a deleted pod's directories, logs and cgroup."""
    if situation.observed.deletion and not situation.observed.cleaned:
        yield from unless_backing_off(situation, RemovePodDirectories(situation.key, qos_class(situation.source)))
