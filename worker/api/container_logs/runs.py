"""Which run of a container has the requested log, or why there is none, in the kubelet's words. Pure.

The rules are validateContainerLogStatus's (pkg/kubelet/kubelet_pods.go); `activities/logs/runs.py` selects the run.
"""

from collections.abc import Mapping
from typing import Any, Final

from activities.logs.runs import run_of, statuses_of
from worker.api.containers.named_pod import quoted

_WAITS: Final = {
    "ErrImagePull": "is waiting to start: image can't be pulled",
    "ImagePullBackOff": "is waiting to start: trying and failing to pull image",
}


class NoLog(Exception):
    """No run of the container has a log; the text says why."""


def run_to_show(status: Mapping[str, Any], pod: str, container: str, *, previous: bool) -> str:
    """Return the container id of the requested run, by the pod's status; raises NoLog."""
    found = statuses_of(status).get(container)
    what = f"container {quoted(container)} in pod {quoted(pod)}"
    if found is None:
        raise NoLog(f"{what} is not available")
    if run := run_of(found, previous=previous):
        return run
    if previous:
        raise NoLog(f"previous terminated {what} not found")
    state = found.get("state") or {}
    if "terminated" in state or (found.get("lastState") or {}).get("terminated") is not None:
        raise NoLog(f"{what} is terminated")
    if "waiting" not in state:
        raise NoLog(f"{what} is waiting to start - no logs yet")
    reason = (state["waiting"] or {}).get("reason", "")
    raise NoLog(f"{what} {_WAITS.get(reason, f'is waiting to start: {reason}')}")
