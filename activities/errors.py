"""What went wrong, sorted by what the caller may do about it.

The clients raise `CriError` with a `Remedy` (`clients/cri_error.py`); activities turn it into a
Temporal ApplicationError whose type is the Kubernetes reason. Only `RuntimeUnavailable` is left to Temporal's retries:
containerd is away and nothing was decided. Everything else is the workflow's to judge, so it is non-retryable.
"""

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.clients.cri_error import CriError, Remedy
from proto.temporal.failure_types import RUNTIME_UNAVAILABLE
from proto.temporal.messages import shorten


def failed(reason: str, message: str) -> ApplicationError:
    """Build the error that the workflow judges by its Kubernetes reason; Temporal does not retry it."""
    return ApplicationError(shorten(message), type=reason, non_retryable=True)


def unavailable(error: CriError, endpoint: str) -> ApplicationError:
    """Build the one error that Temporal retries: nobody answers at the runtime's endpoint.

    Benign to the SDK, which would else log it for each pod every five seconds; the poller says it once.
    """
    message = (
        f"no container runtime answers at {endpoint} ({error.details}); pods keep their state, work resumes by itself: "
        f"start containerd, or set --container-runtime-endpoint to its socket"
    )
    return ApplicationError(shorten(message), type=RUNTIME_UNAVAILABLE, category=ApplicationErrorCategory.BENIGN)


def translated(error: CriError, endpoint: str, reason: str, doing: str) -> ApplicationError:
    """Turn a runtime's refusal into what the workflow is told: `doing` says what and which one."""
    if error.remedy is Remedy.RETRY:
        return unavailable(error, endpoint)
    return failed(reason, f"{doing}: {error.details}")
