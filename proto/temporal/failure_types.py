"""The types of activities' failures that more than one room knows: what history has, and who waits for which.

The first ones are no reasons of Kubernetes.
"""

from typing import Final

RUNTIME_UNAVAILABLE: Final = "RuntimeUnavailable"
API_SERVER_AWAY: Final = "APIServerAway"
PREDECESSOR_PRESENT: Final = "PredecessorPresent"
INVALID_POD_NAME: Final = "InvalidPodName"
UNEXPECTED: Final = "UnexpectedError"
"""A defect of ours (`activities/execution/unexpected.py`)."""

FAILED_MOUNT: Final = "FailedMount"
FAILED_UNMOUNT: Final = "FailedUnmount"
CONFIG_ERROR: Final = "CreateContainerConfigError"
