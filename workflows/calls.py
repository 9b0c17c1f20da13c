"""How Temporal is asked to carry out an action: the rows of the tables of actions, translated.

A failure that Kubernetes itself would retry in silence (the runtime is unavailable) is retried by Temporal. Every other failure
comes back as a fact that `decide/` judges.
"""

from datetime import timedelta
from typing import Any, Final

from temporalio.common import RetryPolicy

from workflows.decide.action_type import ActionType
from workflows.decide.actions import ACTIONS
from workflows.decide.node.actions import NODE_ACTIONS

ONCE: Final = RetryPolicy(maximum_attempts=1)
"""For a read as a local activity: what does not answer then becomes an activity, which the UI shows."""

SUMMARY_LIMIT: Final = 200
"""Temporal takes 400 bytes of summary."""

ALL_ACTIONS: Final = {**ACTIONS, **NODE_ACTIONS}


def action_type(action: Any) -> ActionType:
    """Look up the row of an action of a pod or a node."""
    return ALL_ACTIONS[type(action)]


def retry_policy(action: Any) -> RetryPolicy:
    """Return how Temporal retries an action."""
    row = action_type(action)
    retry = row.own_retry(action) or row.retry
    return RetryPolicy(initial_interval=retry.initial, backoff_coefficient=retry.factor, maximum_interval=retry.longest)


def time_limit(action: Any) -> timedelta:
    """Return how long one try of an action may take."""
    row = action_type(action)
    return row.within + row.extra_time(action)


def summary(action: Any) -> str:
    """Return an action's summary in the Temporal UI."""
    return action_type(action).summary(action)
