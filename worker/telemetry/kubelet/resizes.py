"""Resizes of pods: what was asked for, what was refused and granted, and how long they took (pkg/kubelet/metrics).

Part of `Metrics`. The poller counts what is decided, the worker what is carried out.
"""

from datetime import datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families

_BUCKETS: Final = (10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000)
_MILLISECOND: Final = timedelta(milliseconds=1)
Span = tuple[datetime, datetime]


class ResizeCounts:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        made = Families(registry)
        self._requested = made.counter(
            "kubelet_container_requested_resizes_total",
            "Number of requested resizes, counted at the container level. Different resources on the same container are "
            "counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one of "
            "'add', 'remove', 'increase' or 'decrease'.",
            *("resource", "requirement", "operation"),
        )
        self._infeasible = made.counter(
            "kubelet_pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", "reason_detail"
        )
        self._accepted = made.counter(
            "kubelet_pod_deferred_accepted_resizes_total",
            "Cumulative number of resizes that were accepted after being deferred.",
            "retry_trigger",
        )
        self._milliseconds = made.histogram(
            "kubelet_pod_resize_duration_milliseconds",
            "Duration in milliseconds to actuate a pod resize",
            "success",
            buckets=_BUCKETS,
        )
        self._under_way: dict[str, Span] = {}
        """By UID: from the first step to the last one of a resize that is being carried out."""

    def requested(self, resource: str, requirement: str, operation: str) -> None:
        """Count one resource of one container that an update changes."""
        self._requested(resource, requirement, operation).inc()

    def infeasible(self, detail: str) -> None:
        """Count a resize that this node can never grant."""
        self._infeasible(detail).inc()

    def accepted(self, trigger: str) -> None:
        """Count a deferred resize that was granted, by what had it judged again."""
        self._accepted(trigger).inc()

    def step(self, uid: str, span: Span, *, failed: bool) -> None:
        """Note a step of a resize; one that failed ends the attempt."""
        began = self._under_way.pop(uid, span)[0]
        if failed:
            self._took("false", (began, span[1]))
        else:
            self._under_way[uid] = (began, span[1])

    def ended(self, uid: str) -> None:
        """Count a resize that has been carried out, if there was one."""
        if span := self._under_way.pop(uid, None):
            self._took("true", span)

    def forget(self, uid: str) -> None:
        """Forget a pod that ends before its resize has."""
        self._under_way.pop(uid, None)

    def _took(self, success: str, span: Span) -> None:
        self._milliseconds.labels(success).observe((span[1] - span[0]) // _MILLISECOND)
