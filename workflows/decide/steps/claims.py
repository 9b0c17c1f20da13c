"""When a pod's ResourceClaims are prepared and undone (kuberuntime_manager.go SyncPod, kubelet.go SyncTerminatingPod).

Before each sandbox, because a reboot may have come in between, and after the last container, because the API frees the devices of a pod that
has ended. A pod without claims has no such step.
"""

from collections.abc import Iterator

from proto.dra.pod_claims import claims_slice, uses_claims
from proto.temporal.activities.claims import PrepareResources, UnprepareResources
from proto.temporal.pod import Lifecycle
from workflows.decide.actions import Action, Wake
from workflows.decide.situation import Situation, unless_backing_off
from workflows.decide.steps.sandbox import claims_prepared, may_have_sandbox


def prepare_claims(situation: Situation) -> Iterator[Action | Wake]:
    """Prepare the claims of a pod that gets a sandbox."""
    observed = situation.observed
    if observed.waiting_for or situation.sandbox_id or claims_prepared(situation) or not may_have_sandbox(situation):
        return
    attempt = observed.next_sandbox_attempt
    yield from unless_backing_off(situation, PrepareResources(situation.key, claims_slice(situation.source), attempt))


def awaits_claims(situation: Situation) -> bool:
    """Report whether a pod without a sandbox has claims that are not prepared for its next one."""
    is_starting = situation.observed.lifecycle is Lifecycle.SYNC and not situation.sandbox_id
    return is_starting and not claims_prepared(situation)


def may_have_claims(situation: Situation) -> bool:
    """Report whether a claim may be prepared for the pod, as long as nobody knows that none is."""
    return uses_claims(situation.source) and not situation.observed.claims_undone


def unprepare_claims(situation: Situation) -> Iterator[Action | Wake]:
    """Undo the claims of a pod of which nothing runs any more, whether or not any is known to be prepared."""
    if may_have_claims(situation):
        yield from unless_backing_off(situation, UnprepareResources(situation.key))


def resources_prepared(situation: Situation, action: PrepareResources) -> None:
    """Record that all claims are prepared, and for which sandbox."""
    situation.observed.claims_for, situation.observed.claims_undone = action.sandbox_attempt, False


def resources_unprepared(situation: Situation) -> None:
    """Record that nothing is prepared for the pod."""
    situation.observed.claims_for, situation.observed.claims_undone = None, True
