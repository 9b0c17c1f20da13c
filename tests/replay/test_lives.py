"""Does today's workflow code replay every generated life command by command, with all inputs of the commands?

A failure here means that running pods would be handled differently: such a change needs a new number
(`workflows.decide.versions`), under which the old lives still replay, and generated lives of its own (`make record-lives`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from tests.replay.lives.archive import FOLDER, SUFFIX, RecordedRun, archives, behaviour_of, read, seeds, write
from tests.replay.lives.choosing import FEWEST, chosen, fewest, lives_of, owed
from tests.replay.lives.replaying import replay_all
from workflows.decide.versions import BEHAVIOURS, NODE_BEHAVIOURS

FIRST = {"pod": 2, "node": 1}
"""The first behaviour for which lives were generated."""
MOST_BYTES = 20_000_000
"""Bytes for each behaviour."""


PATHS = (*archives("pod"), *archives("node"))


def name(path: Path) -> str:
    """Return an archive's name in test results."""
    return path.name.partition(".")[0]


@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in PATHS if chosen(path)])
async def test_every_chosen_life_is_led_as_it_was(path: Path) -> None:
    """A difference is named by seed and run: `python -m tests.replay.lives --show SEED/RUN` prints the history."""
    assert not await told_otherwise(read(path, only=chosen(path)))


@pytest.mark.stress
@pytest.mark.parametrize("path", [pytest.param(path, id=name(path)) for path in PATHS])
async def test_every_life_is_led_as_it_was(path: Path) -> None:
    """The chosen ones show all that the others show (`choosing.py`); `test_replay` has the hand-picked lives of every number."""
    assert not await told_otherwise(read(path))


async def told_otherwise(runs: Iterator[RecordedRun]) -> list[str]:
    """Replay these runs and return the differences."""
    return [f"{name}: {why}" async for name, why in replay_all(runs) if why]


@pytest.mark.parametrize("kind", ["pod", "node"])
def test_every_behaviour_has_its_corpus(kind: str) -> None:
    """Enough lives, of which enough are replayed always, and not too many bytes."""
    known = BEHAVIOURS if kind == "pod" else NODE_BEHAVIOURS
    for behaviour in range(FIRST[kind], max(known) + 1):
        mine = [path for path in archives(kind) if behaviour_of(path) == behaviour]
        assert len(set().union(*map(seeds, mine))) >= FEWEST[kind], behaviour
        assert sum(len(chosen(path)) for path in mine) >= fewest(kind, behaviour), "choose anew: --choose"
        assert sum(path.stat().st_size for path in mine) <= MOST_BYTES


@pytest.mark.stress
@pytest.mark.parametrize(
    ("kind", "number"),
    [(kind, number) for kind in FIRST for number in sorted({behaviour_of(path) for path in archives(kind)})],
)
def test_the_chosen_lives_show_what_all_show(kind: str, number: int) -> None:
    """Every word, every sequence of commands and every answer to an arrival."""
    lives = lives_of(kind, number)
    shown = {one for life in lives if life.seed in chosen(FOLDER / f"{life.archive}{SUFFIX}") for one in life.shows}
    assert owed(lives, kind, number) <= shown


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
