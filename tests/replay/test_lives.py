"""Does today's workflow code replay every generated life command by command, with all inputs of the commands?

A failure here means that running pods would be handled differently: such a change needs a new number
(`workflows.decide.versions`), under which the old lives still replay, and generated lives of its own (`make record-lives`).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from tests.replay.lives.archive import RecordedRun, archives, behaviour_of, read, seeds, write
from tests.replay.lives.replaying import replay_all
from workflows.decide.versions import BEHAVIOURS, CURRENT, NODE_BEHAVIOURS

FIRST = {"pod": 2, "node": 1}
"""The first behaviour for which lives were generated."""
MOST_BYTES = 20_000_000
"""Bytes for each behaviour."""
FEWEST_LIVES = {"pod": 500, "node": 40}


def replayed_always(kind: str) -> set[Path]:
    """Choose the newest archives that hold 500 lives of a number, or one archive of a pod's number that is two or more behind."""
    chosen = set()
    for number in {behaviour_of(path) for path in archives(kind)}:
        mine = [path for path in reversed(archives(kind)) if behaviour_of(path) == number]
        enough = 1 if kind == "pod" and number < CURRENT - 1 else FEWEST_LIVES["pod"]
        while mine and enough > 0:
            chosen.add(path := mine.pop(0))
            enough -= len(seeds(path))
    return chosen


ALWAYS = replayed_always("pod") | replayed_always("node")


def parameter(path: Path) -> Any:
    """Leave the rest to `make stress`; `test_replay` has the hand-picked lives of every number."""
    return pytest.param(path, id=path.name.partition(".")[0], marks=[] if path in ALWAYS else [pytest.mark.stress])


@pytest.mark.parametrize("path", [parameter(path) for path in (*archives("pod"), *archives("node"))])
async def test_every_life_is_led_as_it_was(path: Path) -> None:
    """A difference is named by seed and run: `python -m tests.replay.lives --show SEED/RUN` prints the history."""
    verdicts = [f"{name}: {why}" async for name, why in replay_all(read(path)) if why]
    assert not verdicts


@pytest.mark.parametrize("kind", ["pod", "node"])
def test_every_behaviour_has_its_corpus(kind: str) -> None:
    """Enough lives, and not too many bytes."""
    known = BEHAVIOURS if kind == "pod" else NODE_BEHAVIOURS
    for behaviour in range(FIRST[kind], max(known) + 1):
        mine = [path for path in archives(kind) if behaviour_of(path) == behaviour]
        assert len(set().union(*map(seeds, mine))) >= FEWEST_LIVES[kind], behaviour
        assert sum(path.stat().st_size for path in mine) <= MOST_BYTES


def test_a_recorded_archive_is_not_replaced(tmp_path: Path) -> None:
    """Recording again is refused."""
    write(tmp_path / "kept", [])
    with pytest.raises(FileExistsError):
        write(tmp_path / "kept", [])


# --- can the check fail?


def a_run_with(event: str, *, saying: bytes = b"") -> RecordedRun:
    """Find a run that has such an event containing these bytes; the test may change it."""
    return next(
        run for run in read(archives("pod")[0]) if any(is_such(one, event, saying) for one in run.history.events)
    )


def is_such(one: HistoryEvent, event: str, saying: bytes = b"") -> bool:
    """Return whether this is the event."""
    return one.WhichOneof("attributes") == event and saying in one.SerializeToString()


def asked(event: Any) -> Any:
    """Return the payload of an activity's input."""
    return event.activity_task_scheduled_event_attributes.input.payloads[0]


def swap_activity(event: Any) -> None:
    """Change which activity was scheduled."""
    event.activity_task_scheduled_event_attributes.activity_type.name = "Other"


def change_input(event: Any) -> None:
    """Change an activity's input."""
    asked(event).data = asked(event).data.replace(b'"web"', b'"other"')


def change_timer(event: Any) -> None:
    """Make a timer longer."""
    event.timer_started_event_attributes.start_to_fire_timeout.seconds += 1


def change_carried(event: Any) -> None:
    """Change the input of the next run."""
    carried = event.workflow_execution_continued_as_new_event_attributes.input.payloads[0]
    carried.data = carried.data.replace(b'"lifecycle":"', b'"lifecycle":"un')


def change_attributes(event: Any) -> None:
    """Change the announced phase."""
    fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    for one in fields.values():
        one.data = b'"Other"'


def change_answer(event: Any) -> None:
    """Change the result of an operator's update."""
    answer = event.workflow_execution_update_completed_event_attributes.outcome.success.payloads[0]
    answer.data = answer.data.replace(b'"root@node-1"', b'"nobody"')


@pytest.mark.parametrize(
    ("event", "change", "words"),
    [
        pytest.param(
            "activity_task_scheduled_event_attributes", swap_activity, "Nondeterminism", id="another-activity"
        ),
        pytest.param("activity_task_scheduled_event_attributes", change_input, "web", id="another-input"),
        pytest.param("timer_started_event_attributes", change_timer, "timer", id="another-timer"),
        pytest.param(
            "workflow_execution_continued_as_new_event_attributes", change_carried, "lifecycle", id="another-next-run"
        ),
        pytest.param(
            "upsert_workflow_search_attributes_event_attributes", change_attributes, "attributes", id="another-phase"
        ),
        pytest.param(
            "workflow_execution_update_completed_event_attributes", change_answer, "operator", id="another-answer"
        ),
    ],
)
async def test_what_was_led_otherwise_is_named(event: str, change: Any, words: str) -> None:
    """Proves that the check can fail: each part of a history that it compares is changed once."""
    run = a_run_with(event)
    change(next(one for one in run.history.events if is_such(one, event)))
    ((_, why),) = [verdict async for verdict in replay_all([run])]
    assert words in why


async def test_a_field_that_no_release_before_knew_is_tolerated() -> None:
    """Payloads may gain fields: the history lacks a field that is empty today."""
    scheduled = "activity_task_scheduled_event_attributes"
    run = a_run_with(scheduled, saying=b":[]")
    event = next(one for one in run.history.events if is_such(one, scheduled, b":[]"))
    known = {name: value for name, value in json.loads(asked(event).data).items() if value != []}
    asked(event).data = json.dumps(known).encode()
    assert [why async for _, why in replay_all([run])] == [""]


async def test_a_field_that_is_not_there_any_more_is_named() -> None:
    """No field of the history may disappear, not even an empty one."""
    scheduled = "activity_task_scheduled_event_attributes"
    run = a_run_with(scheduled)
    event = next(one for one in run.history.events if is_such(one, scheduled))
    asked(event).data = json.dumps({**json.loads(asked(event).data), "old_field": ""}).encode()
    ((_, why),) = [verdict async for verdict in replay_all([run])]
    assert ".old_field was" in why
