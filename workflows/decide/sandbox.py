"""When the pod gets a sandbox, and when a new one (kuberuntime_manager.go computePodActions, podSandboxChanged).

A sandbox that is not ready any more takes its containers with it: what still runs in it is stopped, its network given
back, and everything starts again under the next attempt.
"""

from collections.abc import Iterator

from proto.temporal.pod import ContainerState
from proto.temporal.requests import AwaitPredecessor, MakePodDirectories, RunPodSandbox, StopContainer, StopPodSandbox
from workflows.decide.actions import Action, Wake
from workflows.decide.containers import init_failed, policy_of
from workflows.decide.grace import grace_of
from workflows.decide.restart import RestartPolicy, comes_back
from workflows.decide.situation import Situation, unless_failed
from workflows.decide.slices import sandbox_slice
from workflows.versions import STARTS_LEAN

LIVE = (ContainerState.CREATED, ContainerState.RUNNING, ContainerState.UNKNOWN)


def make_directories(situation: Situation) -> Iterator[Action | Wake]:
    """Make the pod's directories apart: for a sandbox that was found, not made, and in behaviour 1 always."""
    apart = situation.behaviour < STARTS_LEAN or situation.sandbox_id
    if apart and not situation.observed.directories:
        yield from unless_failed(situation, MakePodDirectories(situation.key, log_folders(situation)))


def log_folders(situation: Situation) -> tuple[str, ...]:
    """Name the containers that need a log folder."""
    return tuple(one.name for one in (*situation.init_containers, *situation.containers))


def live_containers(situation: Situation) -> list[str]:
    """Name the containers that the runtime still holds and that have not ended, in the spec's order."""
    return [
        one.name
        for one in (*situation.init_containers, *situation.containers)
        if (facts := situation.facts(one.name)).exit is None and facts.state in LIVE
    ]


def may_have_sandbox(situation: Situation) -> bool:
    """Say whether anything would start in a sandbox: a finished pod gets no new one."""
    policy = policy_of(situation)
    if policy is RestartPolicy.NEVER and situation.observed.next_sandbox_attempt and ever_ran(situation):
        return False
    if init_failed(situation):
        return False
    everyone = (situation.facts(one.name) for one in situation.containers)
    return any(facts.exit is None or comes_back(policy, facts) for facts in everyone)


def ever_ran(situation: Situation) -> bool:
    """Say whether any container ever came to be."""
    return any(facts.container_id for facts in situation.observed.containers.values())


def run_sandbox(situation: Situation) -> Iterator[Action | Wake]:
    """Get the pod a ready sandbox; what still runs in a lost one goes first, whether or not a new one follows."""
    observed = situation.observed
    if observed.waiting_for:
        yield from unless_failed(situation, AwaitPredecessor(situation.key))
        return
    here = situation.sandbox_id
    lost = [name for name in live_containers(situation) if not here or situation.facts(name).sandbox_id != here]
    if lost:
        yield from stop_all(situation, lost, "its sandbox is gone")
    elif here or not may_have_sandbox(situation):
        return
    elif observed.sandbox and not observed.sandbox.stopped:
        yield from unless_failed(situation, StopPodSandbox(situation.key, observed.sandbox.sandbox_id))
    else:
        folders = log_folders(situation) if situation.behaviour >= STARTS_LEAN else ()
        attempt, spec = observed.next_sandbox_attempt, sandbox_slice(situation.source)
        yield from unless_failed(situation, RunPodSandbox(situation.key, attempt, spec, folders))


def stop_all(situation: Situation, names: list[str], reason: str) -> Iterator[Action | Wake]:
    """Stop these containers side by side, all with the pod's grace."""
    grace = grace_of(situation)
    for name in names:
        stop = StopContainer(
            pod=situation.key,
            name=name,
            container_id=situation.facts(name).container_id,
            grace=grace.length,
            asked_at=grace.since,
            reason=reason,
        )
        yield from unless_failed(situation, stop)
