"""Does each kind of Update report who asked, and what changed?"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.activities import requests
from proto.temporal.operator import ConditionSet, PodEvicted, PodStops
from tests.worker.history.story_recorder import POD, Recorder, seen
from worker.history.sentences.update_sentences import UPDATES

FIVE = timedelta(seconds=5)
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LOCAL_NOON = f"{NOON.astimezone():%H:%M:%S}"


@pytest.fixture
def recorded() -> Recorder:
    """Record the start of a pod's history."""
    recorder = Recorder()
    recorder.begin()
    return recorder


def test_every_update_has_a_row() -> None:
    """A new kind without a row is noticed here."""
    operators = {names.SKIP_BACKOFF, names.SET_CONDITION, names.STOP_POD, names.EVICT_POD}
    assert set(UPDATES) == operators | {names.ADD_EPHEMERAL_CONTAINER}


@pytest.mark.parametrize(
    ("name", "answer", "text"),
    [
        pytest.param(
            names.SET_CONDITION,
            ConditionSet("root@node-1", "example.com/lb", "True"),
            "operator root@node-1 set condition example.com/lb to True, it had none",
            id="a-condition-for-the-first-time",
        ),
        pytest.param(
            names.SET_CONDITION,
            ConditionSet("root@node-1", "example.com/lb", "False", "True", "Draining", "by hand"),
            "operator root@node-1 set condition example.com/lb to False, it was True (Draining: by hand)",
            id="a-condition-again",
        ),
        pytest.param(
            names.STOP_POD,
            PodStops("root@node-1", FIVE, FIVE, NOON, timedelta(seconds=20)),
            f"operator root@node-1 asked to stop it within 5.00 s: its grace period ends 20.0 s sooner, SIGKILL at {LOCAL_NOON}",
            id="a-stop-that-is-over-sooner",
        ),
        pytest.param(
            names.STOP_POD,
            PodStops("root@node-1", FIVE, timedelta(seconds=1), NOON, timedelta()),
            "operator root@node-1 asked to stop it within 5.00 s, but its grace period ends before that anyway",
            id="a-stop-that-was-to-be-over-by-then",
        ),
        pytest.param(
            names.EVICT_POD,
            PodEvicted("root@node-1", "Evicted", "The node was low on memory", FIVE, NOON),
            (
                "operator root@node-1 evicted the pod: Evicted: The node was low on memory (grace 5.00 s, SIGKILL at "
                f"{LOCAL_NOON})"
            ),
            id="an-eviction",
        ),
    ],
)
def test_what_an_update_says(recorded: Recorder, name: str, answer: Any, text: str) -> None:
    """Who asked, and what changed."""
    recorded.update(name, answer)
    assert recorded.texts()[1:] == [text]


def test_the_node_says_why_it_chose_a_pod(recorded: Recorder) -> None:
    """It is no operator, and its stops name it."""
    chosen = PodEvicted("", "Evicted", "The node was low on resource: memory. ", FIVE, NOON, "it uses most")
    recorded.update(names.EVICT_POD, chosen)
    assert recorded.texts()[1:] == [
        f"the node evicted the pod: Evicted: The node was low on resource: memory. (grace 5.00 s, SIGKILL at {LOCAL_NOON})",
        "the node chose this pod because it uses most",
    ]
    why = "Evicted: The node was low on resource: memory. "
    asked = requests.StopContainer(POD, "web", "c0", FIVE, recorded.now, why)
    recorded.do(names.STOP_CONTAINER, asked, seen("c0", exit_code=143, reason="Error", finished_at=recorded.now))
    assert recorded.texts()[-1].endswith("(asked by the node)")


def test_a_stop_names_the_operator_who_evicted(recorded: Recorder) -> None:
    """As it names the source that asked for a deletion."""
    recorded.update(names.EVICT_POD, PodEvicted("root@node-1", "Evicted", "low on memory", FIVE, NOON))
    asked = requests.StopContainer(POD, "web", "c0", FIVE, recorded.now, "Evicted: low on memory")
    recorded.do(names.STOP_CONTAINER, asked, seen("c0", exit_code=143, reason="Error", finished_at=recorded.now))
    assert recorded.texts()[-1].endswith("; why: Evicted: low on memory (asked by operator root@node-1)")
