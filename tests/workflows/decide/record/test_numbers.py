"""Which messages are left out because of their numbers?"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.temporal.operator import OperatorRequest, SetCondition, SkipBackoff, StopPod
from proto.temporal.pod_inputs import GivenCondition
from proto.temporal.signals import (
    DeletionRequested,
    ObjectsChanged,
    PodListed,
    RuntimeChanged,
    StatusGiven,
    StorageExceeded,
)
from tests.workflows.decide.situations import at, situation
from workflows.decide.record.numbers import MOST_REQUESTS, already_taken, is_duplicate, is_late, is_taken_again
from workflows.decide.record.signals import apply_signal

POLLER, WORKER = "poller", "worker"


@pytest.mark.parametrize(
    ("first", "second", "late"),
    [
        pytest.param(PodListed("file", 1, sender=POLLER), PodListed("file", 2, sender=POLLER), False, id="in-order"),
        pytest.param(PodListed("file", 2, sender=POLLER), PodListed("file", 1, sender=POLLER), True, id="overtaken"),
        pytest.param(PodListed("file", 2, sender=POLLER), PodListed("file", 2, sender=POLLER), True, id="twice"),
        pytest.param(PodListed("file", 2), PodListed("file", 2), False, id="twice-from-a-release-that-sent-no-sender"),
        pytest.param(PodListed("file", sender=POLLER), PodListed("file", sender=POLLER), False, id="without-numbers"),
        pytest.param(
            PodListed("file", 2, sender=POLLER), PodListed("api", 2, sender=POLLER), False, id="of-another-source"
        ),
        pytest.param(
            PodListed("api", 2, sender=POLLER),
            DeletionRequested("api", "x", sequence=2, sender=POLLER),
            True,
            id="one-source-counts-all-its-kinds",
        ),
        pytest.param(
            StatusGiven("api", 3, sender=POLLER), StatusGiven("api", 3, sender=POLLER), True, id="a-status-twice"
        ),
    ],
)
def test_what_a_source_says(first: Any, second: Any, late: bool) -> None:
    """An older one and one that came before are left out."""
    observed = situation().observed
    assert not is_late(observed, first)
    assert is_late(observed, second) is late


@pytest.mark.parametrize(
    ("first", "second", "duplicate"),
    [
        pytest.param(
            RuntimeChanged("event", 7, sender=POLLER), RuntimeChanged("event", 7, sender=POLLER), True, id="a"
        ),
        pytest.param(
            RuntimeChanged("event", 7, sender=POLLER),
            RuntimeChanged("relist", 7, sender=POLLER),
            True,
            id="whatever-saw-it",
        ),
        pytest.param(
            RuntimeChanged("event", 7, sender=POLLER), RuntimeChanged("event", 8, sender=POLLER), False, id="the-next"
        ),
        pytest.param(
            RuntimeChanged("event", 7, sender=POLLER),
            RuntimeChanged("event", 6, sender=POLLER),
            False,
            id="an-older-one-only-asks-to-look",
        ),
        pytest.param(RuntimeChanged("event", 7), RuntimeChanged("event", 7), False, id="of-an-earlier-release"),
        pytest.param(RuntimeChanged("event"), RuntimeChanged("event"), False, id="without-numbers"),
        pytest.param(
            RuntimeChanged("event", 7, sender=POLLER),
            ObjectsChanged("objects", sequence=7, sender=POLLER),
            False,
            id="of-another-kind",
        ),
        pytest.param(
            ObjectsChanged("objects", sequence=7, sender=POLLER),
            ObjectsChanged("objects", sequence=7, sender=WORKER),
            False,
            id="of-another-sender",
        ),
        pytest.param(
            StorageExceeded("local-storage", sequence=7, sender=WORKER),
            StorageExceeded("local-storage", sequence=7, sender=WORKER),
            True,
            id="a-limit-that-is-exceeded",
        ),
    ],
)
def test_what_is_seen_on_the_node(first: Any, second: Any, duplicate: bool) -> None:
    """Only what came before is left out: a hint asks to look, so an older one does no harm."""
    observed = situation().observed
    assert not is_duplicate(observed, first)
    assert is_duplicate(observed, second) is duplicate


@pytest.mark.parametrize(
    ("again", "stale"),
    [
        pytest.param(RuntimeChanged("event", 7, sender=POLLER), False, id="a-duplicate"),
        pytest.param(RuntimeChanged("event", 8, sender=POLLER), True, id="the-next"),
        pytest.param(RuntimeChanged("event", 7), True, id="of-an-earlier-release"),
    ],
)
def test_a_duplicate_hint_causes_no_second_read(again: RuntimeChanged, stale: bool) -> None:
    """The runtime was read for the first one."""
    here = situation()
    apply_signal(here, RuntimeChanged("event", 7, sender=POLLER))
    here.observed.runtime_stale = False
    apply_signal(here, again)
    assert here.observed.runtime_stale is stale


def test_a_status_that_comes_twice_takes_nothing_back() -> None:
    """What an operator has set in between stays."""
    here = situation()
    given = StatusGiven("api", 5, {"gate": GivenCondition("False", at(0))}, sender=POLLER)
    apply_signal(here, given)
    apply_signal(here, SetCondition("root@node-1", "gate", "True", sequence=1))
    apply_signal(here, given)
    assert here.observed.given_conditions["gate"].status == "True"


def test_a_signal_without_a_sender_leaves_no_number_of_hints() -> None:
    """The next run's input stays as earlier releases wrote it, so that their histories replay."""
    here = situation()
    for hint in (RuntimeChanged("event", 7), ObjectsChanged("objects", {}, 8), StorageExceeded("local-storage")):
        apply_signal(here, hint)
    apply_signal(here, StopPod("root@node-1"))
    assert (here.observed.heard, here.observed.requests) == ({}, ())


@pytest.mark.parametrize("asked", [SkipBackoff("root@n"), SetCondition("root@n", "gate", "True"), StopPod("root@n")])
def test_a_request_counts_once(asked: OperatorRequest) -> None:
    """The second one is refused, and recorded by nobody."""
    here = situation()
    numbered = replace(asked, source="command", sequence=11)
    assert already_taken(here, numbered) is None
    assert not is_taken_again(here.observed, numbered)
    refusal = already_taken(here, numbered)
    assert refusal is not None
    assert refusal.reason == "Duplicate"
    assert is_taken_again(here.observed, numbered)
    assert already_taken(here, replace(numbered, sequence=12)) is None, "requests have no order"


def test_a_request_of_an_earlier_release_is_never_a_duplicate() -> None:
    """It has no number."""
    here = situation()
    for _ in range(2):
        assert already_taken(here, StopPod("root@n")) is None
        assert not is_taken_again(here.observed, StopPod("root@n"))


@given(st.lists(st.integers(1, 40), max_size=120))
def test_the_numbers_of_requests_are_bounded(numbers: list[int]) -> None:
    """Each number is taken once among the newest, whatever the order."""
    observed = situation().observed
    for number in numbers:
        known = number in observed.requests
        assert is_taken_again(observed, StopPod("root@n", sequence=number)) is known
        assert observed.requests.count(number) == 1
    assert len(observed.requests) <= MOST_REQUESTS


@given(st.permutations(range(1, 6)), st.lists(st.integers(1, 5), max_size=6))
def test_in_whatever_order_they_come_the_newest_listing_stands(order: list[int], again: list[int]) -> None:
    """What was told to two sides arrives twice and out of order; each number counts at most once, and none after a newer one."""
    observed = situation().observed
    taken = [one for one in (*order, *again) if not is_late(observed, PodListed("file", one, sender=POLLER))]
    assert taken == sorted(set(taken))
    assert taken[-1] == 5
