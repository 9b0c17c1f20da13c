"""Does an activity get the same request, whether Temporal or the process itself asks?"""

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio import activity

from activities.execution.in_process import InProcessActivities, InProcessAttempt
from worker.payloads.receiving import ReceivingConverter
from workflows.decide.actions import ACTIONS

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
ZONES = st.sampled_from([UTC, timezone(timedelta(0)), timezone(timedelta(hours=2))])
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=ZONES)  # noqa: DTZ001 - hypothesis wants them so
"""A zone has several names, so the repr of one moment is not always the same."""


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Draw a value of a type."""
    inner = get_args(hint)
    if hint is Any:
        return JSON
    if hint is datetime:
        return MOMENTS
    if is_dataclass(hint) and isinstance(hint, type):
        known = get_type_hints(hint)
        return st.builds(hint, **{one.name: values(known[one.name]) for one in fields(hint)})
    if get_origin(hint) is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=2)
    if get_origin(hint) is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if get_origin(hint) in {Union, UnionType}:
        return st.one_of([values(one) for one in inner])
    return st.from_type(hint)


@pytest.mark.parametrize("kind", ACTIONS, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_an_activity_gets_the_same_request_from_both(kind: type, data: st.DataObject) -> None:
    """However often Temporal has carried it: twice is through a continue-as-new."""
    seen: list[Any] = []

    async def see(request: Any) -> None:
        seen.append(request)

    see.__annotations__["request"] = kind
    name, request = ACTIONS[kind].name, data.draw(values(kind))
    attempt = InProcessAttempt(name=name, workflow_id="pod", key="key", asker=("epoch-1", 1), deliver=Mock())
    await InProcessActivities([activity.defn(name=name)(see)], []).run(attempt, request)
    once = carried(kind, request)
    assert repr(seen.pop()) == repr(once) == repr(carried(kind, once))


def carried(kind: type, request: Any) -> Any:
    """Return what Temporal gives to the activity."""
    converter = ReceivingConverter()
    [read] = converter.from_payloads(converter.to_payloads([request]), [kind])
    return read
