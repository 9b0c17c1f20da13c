"""When a pod ends because it holds more on the node's disk than its manifest lets it.

The worker counts (`worker/host/local_storage.py`) what `watched_limits` names, and hints at what is too much; whether that ends
the pod is said here, by the pod as it is now. Rules and words are the kubelet's (pkg/kubelet/eviction/eviction_manager.go
localStorageEviction, helpers.go). It is the pod's own limit and not the node's need, so it has no DisruptionTarget. The kubelet
ends no static pod so, for it counts each as critical and would not start it again; here these are all the pods there are, so
only those are spared that are the system's by their priority. The pod has failed, and starts again when its manifest changes.
"""

from datetime import timedelta
from typing import Final

from proto.kubernetes.priority import is_critical
from proto.kubernetes.resources.storage_limits import StorageLimits, is_more, storage_limits
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Eviction
from proto.temporal.signals import StorageExceeded
from workflows.decide.ending.grace import pod_grace
from workflows.decide.situation import Situation
from workflows.decide.status.phase import TERMINAL
from workflows.decide.status.status import pod_status
from workflows.decide.steps.termination import prepare_termination

REASON: Final = "Evicted"
GRACE: Final = timedelta(seconds=1)
"""The kubelet's immediateEvictionGracePeriodSeconds; a pod whose own is shorter has that."""


def watched_limits(situation: Situation) -> StorageLimits | None:
    """Say which limits are to be watched; None: there are none, or exceeding them ends nothing."""
    observed = situation.observed
    if observed.lifecycle is not Lifecycle.SYNC or observed.deletion or observed.eviction:
        return None
    limits = storage_limits(situation.source)
    return None if limits is None or is_critical(situation.source) else limits


def why_evicted(situation: Situation, hint: StorageExceeded) -> str:
    """Say what the pod is evicted for; nothing for a hint that is late, repeated or of a limit that is no more."""
    limits = watched_limits(situation)
    if limits is None or not is_more(hint.used_bytes, limit := limit_of(limits, hint)):
        return ""
    if pod_status(situation).phase in TERMINAL:
        return ""
    if hint.empty_dir:
        return f'Usage of EmptyDir volume "{hint.empty_dir}" exceeds the limit "{limit}". '
    if hint.container:
        return f'Container {hint.container} exceeded its local ephemeral storage limit "{limit}". '
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "


def limit_of(limits: StorageLimits, hint: StorageExceeded) -> str:
    """Look up which limit a hint is about; empty: there is none."""
    if hint.empty_dir:
        return limits.empty_dirs.get(hint.empty_dir, "")
    return limits.containers.get(hint.container, "") if hint.container else limits.pod


def storage_exceeded(situation: Situation, hint: StorageExceeded) -> None:
    """Write down that the node ends the pod, if it does."""
    if message := why_evicted(situation, hint):
        prepare_termination(situation.observed)
        grace = min(GRACE, pod_grace(situation.spec, None))
        situation.observed.eviction = Eviction(situation.now, REASON, message, grace)
