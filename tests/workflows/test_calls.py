"""Does the table of calls match the activities' names, requests and results?"""

import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from temporalio import activity

from activities.hosted import activities
from proto.temporal.activities.requests import ShortenStop, StopContainer
from proto.temporal.pod import PodKey
from workflows.decide.actions import Action
from workflows.decide.node.actions import NodeAction
from workflows.loops.calls import ALL_ACTIONS, time_limit

HOSTED: dict[str, Callable[..., Any]] = {}
for one in activities(Mock()):  # signatures only: nothing is called
    definition = activity._Definition.from_callable(one)
    assert definition is not None
    assert definition.name is not None
    HOSTED[definition.name] = one


@pytest.mark.parametrize("action", [*get_args(Action), *get_args(NodeAction)], ids=lambda kind: kind.__name__)
def test_every_action_is_called_as_its_activity_wants(action: type) -> None:
    """One row for each action: the activity takes this request and returns this result; an earlier release may have returned another."""
    call = ALL_ACTIONS[action]
    hints = typing.get_type_hints(HOSTED[call.name])
    answer = hints.pop("return")
    assert list(hints.values()) == [action]
    assert answer in (call.result, type(call.result), *get_args(call.result))


def test_every_hosted_activity_is_called() -> None:
    """Every hosted activity is called by a workflow, and every called activity is hosted."""
    assert {call.name for call in ALL_ACTIONS.values()} == set(HOSTED)


def test_every_long_call_heartbeats() -> None:
    """Without a heartbeat a dead worker would block the pod until the call's timeout; no pod waits for an endless one."""
    silent = {kind.__name__ for kind, call in ALL_ACTIONS.items() if call.heartbeat is None}
    endless = {kind.__name__ for kind, call in ALL_ACTIONS.items() if call.endless}
    assert silent >= endless
    silent -= endless
    assert all(ALL_ACTIONS[kind].within <= timedelta(minutes=1) for kind in ALL_ACTIONS if kind.__name__ in silent)


def test_a_stop_may_last_its_grace_and_more() -> None:
    """The timeout grows with the grace period, so a grace period of an hour does not time out."""
    hour = timedelta(hours=1)
    stop = StopContainer(PodKey("default", "web", "uid"), "web", "id", hour, datetime.now(UTC), "deleted")
    shorter = ShortenStop(stop.pod, stop.name, stop.container_id, hour, stop.asked_at, stop.reason)
    assert min(time_limit(stop), time_limit(shorter)) > hour
