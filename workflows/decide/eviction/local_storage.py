"""Evictions of pods that use more local storage than their manifest allows.

The worker measures what `watched_limits` returns (`worker/host/local_storage.py`) and signals what exceeds a limit;
whether the pod is evicted is decided here. Rules and messages are the kubelet's
(pkg/kubelet/eviction/eviction_manager.go localStorageEviction, helpers.go). The limit is the pod's own, so the pod has
no condition DisruptionTarget. The kubelet evicts no static pods, because it treats each as critical and would not
restart it; here only those of a system priority are spared. The pod has failed (a pod of the API whose containers all exit
with 0 has succeeded); one of a manifest starts again when that changes.
"""

from datetime import timedelta
from typing import Final

from proto.kubernetes.priority import is_critical
from proto.kubernetes.resources.storage_limits import StorageLimits, is_more, storage_limits
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from proto.temporal.signals import StorageExceeded
from workflows.decide.ending.grace import pod_grace
from workflows.decide.eviction.limits import container_message, empty_dir_message, pod_message
from workflows.decide.eviction.messages import REASON
from workflows.decide.situation import Situation
from workflows.decide.status.phase import TERMINAL, may_succeed
from workflows.decide.status.status import pod_status
from workflows.decide.steps.termination import prepare_termination

GRACE: Final = timedelta(seconds=1)
"""The kubelet's immediateEvictionGracePeriodSeconds; a shorter grace period of the pod's own applies."""


def watched_limits(situation: Situation) -> StorageLimits | None:
    """Return the limits to watch; None if there are none, or if exceeding them has no consequence."""
    observed = situation.observed
    if observed.lifecycle is not Lifecycle.SYNC or observed.deletion or observed.eviction:
        return None
    limits = storage_limits(situation.source)
    return None if limits is None or is_critical(situation.source) else limits


def why_evicted(situation: Situation, hint: StorageExceeded) -> str:
    """Return why the pod is evicted; empty for a signal that is late, repeated or about a former limit."""
    limits = watched_limits(situation)
    if limits is None or not is_more(hint.used_bytes, limit := limit_of(limits, hint)):
        return ""
    if pod_status(situation).phase in TERMINAL:
        return ""
    if hint.empty_dir:
        return empty_dir_message(hint.empty_dir, limit)
    if hint.container:
        return container_message(hint.container, limit)
    return pod_message(limit)


def limit_of(limits: StorageLimits, hint: StorageExceeded) -> str:
    """Look up the limit that a signal is about; empty if there is none."""
    if hint.empty_dir:
        return limits.empty_dirs.get(hint.empty_dir, "")
    return limits.containers.get(hint.container, "") if hint.container else limits.pod


def storage_exceeded(situation: Situation, hint: StorageExceeded) -> None:
    """Record the eviction, if the pod is evicted."""
    if message := why_evicted(situation, hint):
        prepare_termination(situation.observed)
        grace = min(GRACE, pod_grace(situation.spec, None))
        situation.observed.eviction = Eviction(
            situation.now, REASON, message, grace, may_succeed=may_succeed(situation)
        )
