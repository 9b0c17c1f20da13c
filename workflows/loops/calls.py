"""The rows of the tables of actions, of pods and of nodes: how a driver carries out an action.

A failure that Kubernetes itself would retry in silence (the runtime is unavailable) is retried by the driver. Every other
failure comes back as a fact that `decide/` judges.
"""

from datetime import timedelta
from typing import Any, Final

from workflows.decide.action_type import ActionType, Retry
from workflows.decide.actions import ACTIONS
from workflows.decide.node.actions import NODE_ACTIONS

ALL_ACTIONS: Final = {**ACTIONS, **NODE_ACTIONS}


def action_type(action: Any) -> ActionType:
    """Look up the row of an action of a pod or a node."""
    return ALL_ACTIONS[type(action)]


def retry_of(action: Any) -> Retry:
    """Return how an action is retried."""
    row = action_type(action)
    return row.own_retry(action) or row.retry


def time_limit(action: Any) -> timedelta:
    """Return how long one try of an action may take."""
    row = action_type(action)
    return row.within + row.extra_time(action)


def summary(action: Any) -> str:
    """Return an action's summary in the Temporal UI."""
    return action_type(action).summary(action)
