"""What the sessions of a run have told, added up, and the verdict over it. Pure.

A test counts only by what was told of it. What was to run and has no outcome is lost, and that fails the run.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MOST_FLAKY: Final = 2
"""So many tests may pass only when they are run once more."""
MOST_RERUN: Final = 10
"""More failures than these have one cause; running each again would only take long."""
_WORDS: Final = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error")
_PLURAL: Final = frozenset({"warning", "error"})
_BAD: Final = frozenset({"failed", "error"})


@dataclass(slots=True)
class SessionResult:
    """What one session was to run and has told."""

    files: tuple[str, ...]
    tests: dict[str, bool] = field(default_factory=dict)
    """The tests that it has collected, and whether each may be run once more."""
    unfinished: dict[str, set[str]] = field(default_factory=dict)
    """Test file -> its tests that have not ended."""
    outcomes: list[tuple[str, str]] = field(default_factory=list)
    """Test or file, and what it counts as."""
    failures: dict[str, str] = field(default_factory=dict)
    """Test or file -> the last line of why it failed."""
    skips: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    """Test file -> how long its tests took."""
    seen: set[str] = field(default_factory=set)
    """Files of which something was told: tests, or why there are none."""
    counts: Counter[str] = field(default_factory=Counter)
    cpu: float = 0.0
    exit: int | None = None

    def hear(self, told: Mapping[str, Any]) -> None:
        """Take up one event of `reporting`."""
        match told:
            case {"event": "collected", "tests": tests, "deselected": deselected}:
                self.tests = dict(tests)
                for test in self.tests:
                    self.unfinished.setdefault(file_of(test), set()).add(test)
                self.seen |= self.unfinished.keys() | deselected.keys()
                self._count("deselected", sum(deselected.values()))
            case {"event": "phase", "test": test, "outcome": outcome, "seconds": seconds, "text": text}:
                self.seconds[file_of(test)] = self.seconds.get(file_of(test), 0.0) + seconds
                self._outcome(test, outcome, text)
            case {"event": "finished", "test": test}:
                self.unfinished.get(file_of(test), set()).discard(test)
            case {"event": "broken", "file": file, "text": text}:
                self.seen.add(file)
                self._outcome(file, "error", text)
            case {"event": "left_out", "file": file, "text": text}:
                self.seen.add(file)
                self._outcome(file, "skipped", text)
            case {"event": "warning"}:
                self._count("warning")
            case {"event": "end", "exit": code, "cpu": cpu}:
                self.exit, self.cpu = code, cpu

    def lose(self, code: int) -> list[str]:
        """Count as errors what the session, which has ended with this code, should have told; answers what that is."""
        lost = [f"{file}: nothing was told of this file" for file in self.files if file not in self.seen]
        lost += [f"{test}: did not end" for tests in self.unfinished.values() for test in sorted(tests)]
        ran = {test for test, _ in self.outcomes}
        lost += [
            f"{test}: has no outcome" for test in self.tests if test not in ran and f"{test}: did not end" not in lost
        ]
        none_collected = code == 5 and not self.tests and not lost
        if not none_collected and (code != self.exit or code not in {0, 1} or (code == 1 and not self.failures)):
            lost.append(f"the session of {self.files[0]} and {len(self.files) - 1} more ended with exit code {code}")
        self._count("error", len(lost))
        return lost

    def may_run_again(self) -> list[str]:
        """Name the tests that failed and may be run once more."""
        return [name for name in self.failures if self.tests.get(name, False)]

    def file_counts(self, file: str) -> Counter[str]:
        """Count the outcomes of a file's tests."""
        return Counter(outcome for name, outcome in self.outcomes if file_of(name) == file)

    def _outcome(self, name: str, outcome: str, text: str) -> None:
        if not outcome:
            return
        self.outcomes.append((name, outcome))
        self._count(outcome)
        if outcome in _BAD:
            lines = [line for line in text.splitlines() if line.startswith("E  ")] or text.splitlines() or [""]
            self.failures.setdefault(name, lines[0].removeprefix("E").strip())
        if outcome == "skipped":
            self.skips[text] += 1

    def _count(self, word: str, number: int = 1) -> None:
        if number:
            self.counts[word] += number


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run comes to: the tests that failed for good, those that passed when run once more, and its exit code."""

    counts: Counter[str]
    failed: tuple[str, ...]
    flaky: tuple[str, ...]
    code: int


def file_of(test: str) -> str:
    """Return the file of a test's name."""
    return test.partition("::")[0]


def to_run_again(results: Iterable[SessionResult]) -> list[str]:
    """Name the tests that are run once more; none where there are too many."""
    names = [name for one in results for name in one.may_run_again()]
    return names if len(names) <= MOST_RERUN else []


def judge(results: Collection[SessionResult], again: Mapping[str, SessionResult]) -> Verdict:
    """Add up a run; `again` is what each test that was run once more has come to."""
    flaky = tuple(name for name, result in again.items() if result.counts["passed"] == 1 and not _is_bad(result.counts))
    counts: Counter[str] = Counter()
    failed = []
    for one in results:
        counts += one.counts
        for name in one.failures:
            if name not in flaky:
                failed.append(name)
                continue
            outcomes = [outcome for test, outcome in one.outcomes if test == name]
            counts -= Counter(outcomes)
            counts["passed"] += 1
    return Verdict(
        counts, tuple(failed), flaky, int(_is_bad(counts) or len(flaky) > MOST_FLAKY or not counts["passed"])
    )


def summary(counts: Mapping[str, int], seconds: float) -> str:
    """Write the last line as pytest does; `.ci/run` looks for it."""
    told = [
        f"{counts[word]} {word}{'s' * (counts[word] != 1 and word in _PLURAL)}" for word in _WORDS if counts.get(word)
    ]
    return f"{', '.join(told) or 'no tests ran'} in {seconds:.2f}s"


def _is_bad(counts: Mapping[str, int]) -> bool:
    return any(counts.get(word) for word in _BAD)
