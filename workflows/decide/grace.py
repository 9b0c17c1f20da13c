"""How long a container has between SIGTERM and SIGKILL (pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod)."""

from datetime import timedelta
from typing import Final

from kubernetes.client.models.v1_pod_spec import V1PodSpec

DEFAULT: Final = timedelta(seconds=30)
SHORTEST: Final = timedelta(seconds=1)
"""A grace of zero would leave no time to write down how it ended."""


def pod_grace(spec: V1PodSpec, asked: timedelta | None) -> timedelta:
    """Say the grace: what the deletion asks for, else the pod's own, never below a second."""
    own = spec.termination_grace_period_seconds
    grace = asked if asked is not None else DEFAULT if own is None else timedelta(seconds=own)
    return max(grace, SHORTEST)


def shorter(first: timedelta, second: timedelta) -> timedelta:
    """Say which grace counts when two deletions ask: a later one may shorten, never lengthen."""
    return min(first, second)
