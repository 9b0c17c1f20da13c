"""Chooses the lives that `make test` replays: few and short ones that together show what all lives of their number show.

`python -m tests.replay.lives --choose` writes the choice to `chosen.json`, whenever lives were recorded; `make stress` replays
all, and checks the choice. Of the newest two numbers the chosen lives show every word of `tally` thrice, every two commands that one
run gives one after the other, every command that answers an arrival, and any other pair within one workflow task that at least
two lives show; they are filled up to 500 with the shortest. Of an older number they show the words and the commands after each
other.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final

from tests.replay.lives.archive import FOLDER, SUFFIX, RecordedRun, archives, behaviour_of, read
from tests.replay.lives.tally import of_event, words
from workflows.decide.versions import CURRENT

CHOICE: Final = FOLDER / "chosen.json"
"""By archive: the seeds of the chosen lives. An archive without any is named, too, so that a new one is noticed."""
FEWEST: Final = {"pod": 500, "node": 40}
"""Lives of a number, as far as it has so many; an older number of pods has no such limit."""
BRANCHES: Final = {"v5-17": [1710], "v5-23": [2307]}
"""By archive: lives that are chosen, too, as they alone of those replayed before were found to reach a branch of `workflows/`."""
SELDOM: Final = 3
"""Lives that show a word, as far as there are so many; `test_lives_coverage` asks for them."""
BEGIN, END = "begin", "end"
THEN, ANSWER, TOGETHER = "then", "answer", "together"
Shown = str | tuple[str, str, str]
"""A word, or two words and how they stand to each other."""

_COMMANDS: Final = frozenset(
    {
        "activity_task_scheduled",
        "activity_task_cancel_requested",
        "marker_recorded",
        "timer_started",
        "timer_canceled",
        "upsert_workflow_search_attributes",
        "workflow_execution_update_accepted",
        "workflow_execution_update_completed",
        "workflow_execution_continued_as_new",
        "workflow_execution_completed",
    }
)
_TASKS: Final = frozenset({"workflow_task_scheduled", "workflow_task_started", "workflow_task_completed"})


@dataclass(slots=True, eq=False)
class Life:
    """One life's cost and what it shows."""

    archive: str
    seed: int
    cost: float = 0
    """In activations: an event costs an eighth of one, a run three."""
    shows: set[Shown] = field(default_factory=set)


def chosen(path: Path) -> frozenset[int]:
    """Return the chosen seeds of an archive; KeyError: nobody has chosen since it was recorded."""
    return frozenset(json.loads(CHOICE.read_text())[_name(path)])


def choose() -> None:
    """Choose anew from all archives, and write the choice."""
    choice: dict[str, list[int]] = {_name(path): [] for kind in FEWEST for path in archives(kind)}
    for kind in FEWEST:
        for number in sorted({behaviour_of(path) for path in archives(kind)}):
            lives = lives_of(kind, number)
            for one in chosen_of(lives, owed(lives, kind, number), fewest(kind, number)):
                choice[one.archive].append(one.seed)
    for name, seeds in BRANCHES.items():
        choice[name] = list({*choice[name], *seeds})
    rows = (f" {json.dumps(name)}: {json.dumps(sorted(seeds))}" for name, seeds in choice.items())
    CHOICE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def fewest(kind: str, number: int) -> int:
    """Return how many lives of a number are replayed at least."""
    return 0 if _is_old(kind, number) else FEWEST[kind]


def lives_of(kind: str, number: int) -> list[Life]:
    """Read all lives of a number."""
    lives: dict[tuple[str, int], Life] = {}
    for path in archives(kind):
        for run in read(path) if behaviour_of(path) == number else ():
            life = lives.setdefault((_name(path), run.seed), Life(_name(path), run.seed))
            tasks = sum(event.HasField("workflow_task_completed_event_attributes") for event in run.history.events)
            life.cost += tasks + len(run.history.events) / 8 + 3
            life.shows |= shown_in(run)
    return list(lives.values())


def owed(lives: Sequence[Life], kind: str, number: int) -> set[Shown]:
    """Return what the chosen lives of a number have to show."""
    seen = Counter(one for life in lives for one in life.shows)
    if _is_old(kind, number):
        return {one for one in seen if isinstance(one, str) or one[1] == THEN}
    if kind == "node":
        return set(seen)
    return {one for one, count in seen.items() if count > 1 or isinstance(one, str) or one[1] != TOGETHER}


def chosen_of(lives: Sequence[Life], shown: set[Shown], number: int) -> list[Life]:
    """Choose what shows most for its cost, until all is shown; then the shortest until there are so many."""
    rest, left, found = {one: one.shows & shown for one in lives}, set(shown), list[Life]()
    while left:
        best = max(rest, key=lambda one: len(rest[one]) / one.cost)
        found.append(best)
        left -= rest.pop(best)
        rest = {one: shows & left for one, shows in rest.items()}
    shortest = sorted(lives, key=lambda one: one.cost)
    found = _without_needless(found, shown)
    for word in sorted(one for one in shown if isinstance(one, str)):
        lacking = SELDOM - sum(word in one.shows for one in found)
        found += [one for one in shortest if word in one.shows and one not in found][: max(lacking, 0)]
    return found + [one for one in shortest if one not in found][: max(number - len(found), 0)]


def _without_needless(found: list[Life], shown: set[Shown]) -> list[Life]:
    """Drop lives, the longest first, that show nothing that the others do not show."""
    times = Counter(one for life in found for one in life.shows & shown)
    kept = []
    for life in sorted(found, key=lambda one: -one.cost):
        mine = life.shows & shown
        if all(times[one] > 1 for one in mine):
            times.subtract(mine)
        else:
            kept.append(life)
    return kept


def shown_in(run: RecordedRun) -> set[Shown]:
    """Return the words of a run, and which of them follow, answer or meet which."""
    shown: set[Shown] = set(words(run))
    last = BEGIN
    for arrived, given in _tasks(run):
        shown |= {*arrived, *given}
        shown |= {(one, ANSWER, command) for one in arrived for command in given}
        shown |= {(one, TOGETHER, other) for some in (arrived, given) for one, other in combinations(some, 2)}
        for command in given:
            shown.add((last, THEN, command))
            last = command
    shown.add((last, THEN, END))
    return shown


def _tasks(run: RecordedRun) -> Iterator[tuple[list[str], list[str]]]:
    """Return by workflow task the words of what arrived for it, each once, and those of its commands in their order."""
    asked: dict[int, str] = {}
    arrived: dict[str, None] = {}
    given: list[str] = []
    for event in run.history.events:
        kind = (event.WhichOneof("attributes") or "").removesuffix("_event_attributes")
        if kind in _TASKS:
            continue
        said = [*of_event(event, asked)] or [kind]
        if kind in _COMMANDS:
            given += said
            continue
        if given:
            yield list(arrived), given
            arrived, given = {}, []
        arrived |= dict.fromkeys(said)
    yield list(arrived), given


def _is_old(kind: str, number: int) -> bool:
    return kind == "pod" and number < CURRENT - 1


def _name(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)
