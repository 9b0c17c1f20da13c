"""The types of activities' failures that are no Kubernetes reasons: what history has, and who waits for which."""

from typing import Final

RUNTIME_UNAVAILABLE: Final = "RuntimeUnavailable"
API_SERVER_AWAY: Final = "APIServerAway"
PREDECESSOR_PRESENT: Final = "PredecessorPresent"
INVALID_POD_NAME: Final = "InvalidPodName"
UNEXPECTED: Final = "UnexpectedError"
"""A defect of ours (`activities/unexpected.py`)."""
