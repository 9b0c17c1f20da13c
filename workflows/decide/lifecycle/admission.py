"""Whether this node admits a pod; a rejected pod has failed, and nothing of it is started.

What the machine cannot do (`machine_abilities.py`) is judged by the abilities that come with the pod's start, so a rejected pod stays
rejected. An edit of its manifest makes another pod, which is judged again. The policy for supplemental groups
(pkg/kubelet/lifecycle/predicate.go) is known from the first sandbox.
"""

from datetime import datetime
from typing import Final

from proto.kubernetes.admission import GROUPS_POLICY_NOT_SUPPORTED, REJECTED_PREFIX
from proto.temporal.activities.requests import RunPodSandbox
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.failure_types import VOLUME_ATTACHMENT_LIMIT_EXCEEDED
from proto.temporal.pod import Observed
from proto.temporal.pod_inputs import Eviction, Rejected
from workflows.decide.machine_abilities import why_rejected
from workflows.decide.situation import Situation
from workflows.decide.steps.termination import prepare_termination

BY_RUNTIME: Final = frozenset({GROUPS_POLICY_NOT_SUPPORTED})
"""Reasons with which a pod's first sandbox may fail."""


def rejection(situation: Situation) -> Rejected | None:
    """Return why the pod is rejected; None if it is admitted or has begun already."""
    observed = situation.observed
    if observed.sandbox or observed.containers or observed.next_sandbox_attempt or situation.busy:
        return None
    return next(why_rejected(situation.source, situation.settings), None)


def rejected_by_runtime(situation: Situation, action: RunPodSandbox, reason: str) -> bool:
    """Report whether a first sandbox failed because the node cannot run the pod."""
    return reason in BY_RUNTIME and action.attempt == 0 and situation.observed.eviction is None


def rejected_by_volumes(situation: Situation, action: MountVolumes, reason: str) -> bool:
    """Report whether volumes were not mounted because the node has no place for one (pkg/kubelet/kubelet.go SyncPod)."""
    first = action.refresh is None and situation.observed.eviction is None
    return first and reason == VOLUME_ATTACHMENT_LIMIT_EXCEEDED


def reject(observed: Observed, why: Rejected, now: datetime) -> None:
    """Record that the pod is rejected; what an earlier run may have left on the node is removed."""
    prepare_termination(observed)
    observed.eviction = Eviction(now, why.reason, f"{REJECTED_PREFIX}{why.message}")
