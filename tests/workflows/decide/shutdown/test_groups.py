"""Which pods end together, in which order, and with which grace period?"""

from typing import Any

import pytest

from workflows.decide.shutdown.groups import EndingPod, Group, ending_pod, grace_seconds, group_by_priority, ordered
from workflows.decide.shutdown.periods import Period

CRITICAL = 2_000_000_000
TWO_KINDS = (Period(0, 20), Period(CRITICAL, 10))
FOUR = (Period(1, 10), Period(2, 20), Period(3, 30), Period(4, 40))


@pytest.mark.parametrize(
    ("periods", "priority", "group"),
    [
        pytest.param(TWO_KINDS, 0, 0, id="a-usual-pod"),
        pytest.param(TWO_KINDS, -5, 0, id="below-all"),
        pytest.param(TWO_KINDS, CRITICAL - 1, 0, id="between-two-the-lower"),
        pytest.param(TWO_KINDS, CRITICAL, 1, id="just-a-periods-priority"),
        pytest.param(TWO_KINDS, CRITICAL + 1000, 1, id="above-all"),
        pytest.param(FOUR, 0, 0, id="below-all-of-four"),
        pytest.param(FOUR, 3, 2, id="just-the-third"),
        pytest.param(FOUR, 5, 3, id="above-all-of-four"),
        pytest.param((Period(5, 1), Period(5, 2), Period(5, 3)), 5, 0, id="one-priority-twice-its-first"),
        pytest.param((Period(5, 1), Period(5, 2), Period(9, 3)), 7, 1, id="one-priority-twice-its-last-for-higher"),
        pytest.param((Period(5, 1), Period(5, 2)), 1, 0, id="one-priority-twice-its-first-for-lower"),
    ],
)
def test_the_group_of_a_pod(periods: tuple[Period, ...], priority: int, group: int) -> None:
    """The highest period that is not above the pod."""
    found = group_by_priority(periods, [EndingPod("a", priority)])
    assert [index for index, one in enumerate(found) if one.pods] == [group]


def test_groups_without_pods_are_left_out() -> None:
    """Nobody waits for them; the others end from low to high, and pods keep their order."""
    pods = [EndingPod("c", 4), EndingPod("a", 1), EndingPod("d", 9), EndingPod("b", 1)]
    assert [(one.period.seconds, [pod.uid for pod in one.pods]) for one in ordered(FOUR, pods)] == [
        (10, ["a", "b"]),
        (40, ["c", "d"]),
    ]


@pytest.mark.parametrize(
    ("own", "seconds"),
    [
        pytest.param(None, 10, id="without-one-of-its-own"),
        pytest.param(5, 5, id="a-shorter-one"),
        pytest.param(30, 10, id="a-longer-one"),
        pytest.param(0, 0, id="none"),
    ],
)
def test_the_grace_period_of_a_pod(own: int | None, seconds: int) -> None:
    """The group's, unless the pod's own is shorter."""
    pod = EndingPod("a", 0, own)
    assert grace_seconds(Group(Period(0, 10), (pod,)), pod) == seconds


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, EndingPod("u"), id="nothing-said"),
        pytest.param(
            {"priority": 7, "terminationGracePeriodSeconds": 3}, EndingPod("u", 7, 3), id="priority-and-grace-period"
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"}, EndingPod("u", CRITICAL + 1000), id="critical-for-its-node"
        ),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"}, EndingPod("u", CRITICAL), id="critical-for-the-cluster"
        ),
        pytest.param(
            {"priority": 0, "priorityClassName": "system-node-critical"}, EndingPod("u"), id="a-number-comes-first"
        ),
        pytest.param({"priorityClassName": "mine"}, EndingPod("u"), id="another-class"),
    ],
)
def test_a_pod(spec: dict[str, Any], expected: EndingPod) -> None:
    """Its priority as a number, also by a class of the system."""
    assert ending_pod({"metadata": {"uid": "u", "name": "a"}, "spec": spec}) == expected
