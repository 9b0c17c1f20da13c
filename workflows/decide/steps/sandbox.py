"""When the pod gets a sandbox, and when a new one (kuberuntime_manager.go computePodActions, podSandboxChanged).

If the sandbox is no longer ready, its containers are stopped, its network is released, and everything starts again in
the next attempt.
"""

from collections.abc import Iterator

from proto.dra.pod_claims import uses_claims
from proto.temporal.activities.requests import AwaitPredecessor, MakePodDirectories, RunPodSandbox, StopPodSandbox
from workflows.decide.actions import Action, Wake
from workflows.decide.containers.init_containers import init_failed, policy_of
from workflows.decide.containers.restart import RestartPolicy, regular_should_restart
from workflows.decide.containers.termination_order import live_containers, stop_in_order
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.slices import sandbox_slice
from workflows.decide.versions import FEWER_START_ACTIVITIES


def make_directories(situation: Situation) -> Iterator[Action | Wake]:
    """Make the pod's directories separately: for a sandbox that was adopted, and always in behaviour 1."""
    apart = situation.behaviour < FEWER_START_ACTIVITIES or situation.sandbox_id
    if apart and not situation.observed.directories:
        yield from unless_backing_off(situation, MakePodDirectories(situation.key, log_folders(situation)))


def log_folders(situation: Situation) -> tuple[str, ...]:
    """Name the containers that need a log directory."""
    return tuple(one.name for one in situation.all_containers)


def may_have_sandbox(situation: Situation) -> bool:
    """Report whether anything would start in a sandbox: a finished pod gets no new one."""
    policy = policy_of(situation)
    if policy is RestartPolicy.NEVER and situation.observed.next_sandbox_attempt and ever_ran(situation):
        return False
    if init_failed(situation):
        return False
    everyone = ((one, situation.facts(one.name)) for one in situation.containers)
    return any(facts.exit is None or regular_should_restart(one, policy, facts) for one, facts in everyone)


def ever_ran(situation: Situation) -> bool:
    """Report whether any container was ever created."""
    return any(facts.container_id for facts in situation.observed.containers.values())


def claims_prepared(situation: Situation) -> bool:
    """Report whether the pod's ResourceClaims, if it has any, are prepared for the sandbox that comes next."""
    observed = situation.observed
    return not uses_claims(situation.source) or observed.claims_for == observed.next_sandbox_attempt


def run_sandbox(situation: Situation) -> Iterator[Action | Wake]:
    """Get the pod a ready sandbox, after stopping what still runs in a lost one."""
    observed = situation.observed
    if observed.waiting_for:
        yield from unless_backing_off(situation, AwaitPredecessor(situation.key))
        return
    here = situation.sandbox_id
    lost = [name for name in live_containers(situation) if not here or situation.facts(name).sandbox_id != here]
    if lost:
        yield from stop_in_order(situation, lost, "its sandbox is gone")
    elif here or not may_have_sandbox(situation):
        return
    elif observed.sandbox and not observed.sandbox.stopped:
        yield from unless_backing_off(situation, StopPodSandbox(situation.key, observed.sandbox.sandbox_id))
    elif claims_prepared(situation):
        folders = log_folders(situation) if situation.behaviour >= FEWER_START_ACTIVITIES else ()
        attempt, spec = observed.next_sandbox_attempt, sandbox_slice(situation.source)
        yield from unless_backing_off(situation, RunPodSandbox(situation.key, attempt, spec, folders))
