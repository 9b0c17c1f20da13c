"""What went wrong, sorted by what the caller may do about it.

The clients raise `CriError` with a `Remedy` (`clients/cri_error.py`); activities turn it into a
Temporal ApplicationError whose type is the Kubernetes reason. Left to Temporal's retries is only what nobody need decide:
containerd or the API server is away, the worker stops, a hook may fail. Everything else is the workflow's to judge, so it is
non-retryable.
"""

from typing import Final

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.clients.cri_error import CriError, Remedy
from proto.temporal.failure_types import RUNTIME_UNAVAILABLE
from proto.temporal.messages import shorten

WORKER_STOPPING: Final = "WorkerStopping"
"""Of what lasts as long as there is nothing to tell: the next worker goes on with it."""


def failed(reason: str, message: str) -> ApplicationError:
    """Build the error that the workflow judges by its Kubernetes reason; Temporal does not retry it."""
    return ApplicationError(shorten(message), type=reason, non_retryable=True)


def retryable(reason: str, message: str) -> ApplicationError:
    """Build an error that Temporal retries; benign to the SDK, which would else log every try of every pod."""
    return ApplicationError(shorten(message), type=reason, category=ApplicationErrorCategory.BENIGN)


def unavailable(error: CriError, endpoint: str) -> ApplicationError:
    """Build the error that Temporal retries because nobody answers at the runtime's endpoint; the poller logs it once."""
    message = (
        f"no container runtime answers at {endpoint} ({error.details}); pods keep their state, work resumes by itself: "
        f"start containerd, or set --container-runtime-endpoint to its socket"
    )
    return retryable(RUNTIME_UNAVAILABLE, message)


def translated(error: CriError, endpoint: str, reason: str, doing: str = "") -> ApplicationError:
    """Turn a runtime's refusal into what the workflow is told.

    `doing` says what and which one; left out where a container's status shows the message, in which the kubelet has the
    runtime's words alone.
    """
    if error.remedy is Remedy.RETRY:
        return unavailable(error, endpoint)
    return failed(reason, f"{doing}: {error.details}" if doing else error.details)
