"""Turns errors into Temporal failures, sorted by what the caller may do about them.

Clients raise `CriError` with a `Remedy` (`clients/cri_error.py`); activities turn it into an ApplicationError whose
type is the Kubernetes reason. Temporal retries only what needs no decision: containerd or the API server is unavailable, the
worker stops, a hook may be tried again. Everything else is non-retryable, because the workflow decides what follows.
"""

from typing import Final

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.clients.cri_error import CriError, Remedy
from proto.messages import shorten
from proto.temporal.failure_types import RUNTIME_UNAVAILABLE

WORKER_STOPPING: Final = "WorkerStopping"
"""Ends an activity that lasts until there is something to report: the next worker continues it."""


def non_retryable_failure(reason: str, message: str) -> ApplicationError:
    """Build a failure for the workflow with a Kubernetes reason; Temporal does not retry it."""
    return ApplicationError(shorten(message), type=reason, non_retryable=True)


def retryable_failure(reason: str, message: str) -> ApplicationError:
    """Build a failure that Temporal retries.

    It is benign, otherwise the SDK would log every try for every pod.
    """
    return ApplicationError(shorten(message), type=reason, category=ApplicationErrorCategory.BENIGN)


def runtime_unavailable(error: CriError, endpoint: str) -> ApplicationError:
    """Build the failure for a runtime that does not answer; Temporal retries it, and the poller logs it once."""
    message = (
        f"no container runtime answers at {endpoint} ({error.details}); pods keep their state, work resumes by itself: "
        f"start containerd, or set --container-runtime-endpoint to its socket"
    )
    return retryable_failure(RUNTIME_UNAVAILABLE, message)


def runtime_failure(error: CriError, endpoint: str, reason: str, doing: str = "") -> ApplicationError:
    """Turn a runtime error into a failure.

    `doing` says which action failed, for which object. It is left out where a container's status shows the message,
    because the kubelet shows the runtime's words alone.
    """
    if error.remedy is Remedy.RETRY:
        return runtime_unavailable(error, endpoint)
    return non_retryable_failure(reason, f"{doing}: {error.details}" if doing else error.details)
