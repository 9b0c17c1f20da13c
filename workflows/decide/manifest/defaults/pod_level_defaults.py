"""Defaults of `spec.resources` (pkg/apis/core/v1/defaults.go defaultHugePagePodLimits, defaultPodRequests).

Applied after the containers' defaults.
"""

from typing import Any

from proto.kubernetes.resources.amounts import format_amount
from proto.kubernetes.resources.pod_totals import HUGE_PAGES, container_limits, container_requests, is_pod_level


def pod_level_resources(spec: dict[str, Any]) -> dict[str, Any]:
    """Default huge pages to the containers' limits, requests to the containers' requests, then to the pod's limits."""
    given = spec["resources"]
    requests, limits = dict(given.get("requests", {})), dict(given.get("limits", {}))
    if requests or limits:
        for name, total in container_limits({"spec": spec}).items():
            if name.startswith(HUGE_PAGES) and name not in requests and name not in limits:
                limits[name] = format_amount(name, total)
    if limits:
        for name, total in container_requests({"spec": spec}).items():
            if name not in requests and is_pod_level(name) and not name.startswith(HUGE_PAGES):
                requests[name] = format_amount(name, total)
        requests = {**{name: amount for name, amount in limits.items() if is_pod_level(name)}, **requests}
    filled = {"requests": requests, "limits": limits}
    return {**given, **{kind: amounts for kind, amounts in filled.items() if amounts}}
