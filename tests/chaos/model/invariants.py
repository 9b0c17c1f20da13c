"""What must hold after a life, whatever happened in it. Pure: from what a life left, and from the same life without a fault.

The names are those of the table in tests/chaos/README.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from tests.chaos.model.lives import Course, Life

ENDED: Final = ("Succeeded", "Failed")
Invariant = Callable[[Course, Life, Life], Iterator[str]]


def one_live(_course: Course, life: Life, _without: Life) -> Iterator[str]:
    """I1: a pod has at most one live sandbox, and one live instance of each container; what the model refuses is never asked."""
    yield from life.defects
    yield from life.ledger.broken


def nothing_left(_course: Course, life: Life, _without: Life) -> Iterator[str]:
    """I2: nothing is left of a pod that is gone."""
    if life.left:
        yield f"left behind: {', '.join(life.left)}"


def counted(_course: Course, life: Life, _without: Life) -> Iterator[str]:
    """I3: attempts count from 0, each is made once, and the status never has a higher or a falling restart count."""
    attempts: dict[str, list[int]] = defaultdict(list)
    for name, attempt in life.ledger.made:
        attempts[name].append(attempt)
    for name, made in attempts.items():
        if made != list(range(len(made))):
            yield f"attempts of {name}: {made}"
    for name in {name for shot in life.restarts for name in shot}:
        seen = [shot[name] for shot in life.restarts if name in shot]
        if seen != sorted(seen):
            yield f"restart counts of {name} fall: {seen}"
        if seen[-1] > max(attempts[name], default=0):
            yield f"restart count of {name} is {seen[-1]}, attempts were {attempts[name]}"


def phases_end(_course: Course, life: Life, _without: Life) -> Iterator[str]:
    """I4: a terminal phase is final."""
    ended = [phase for phase in life.phases if phase in ENDED]
    if ended and life.phases[life.phases.index(ended[0]) :] != (ended[0],) * len(ended):
        yield f"the phase leaves {ended[0]}: {life.phases}"


def same_end(course: Course, life: Life, without: Life) -> Iterator[str]:
    """I5: status and outcome are those of the life without a fault. A pod that was deleted while it started may have come further."""
    if course.deleted_at is None:
        if life.status != without.status:
            yield f"status {life.status}, not {without.status}"
        if life.outcome != without.outcome:
            yield f"outcome {life.outcome}, not {without.outcome}"
    elif life.outcome.reason != without.outcome.reason:
        yield f"reason {life.outcome.reason}, not {without.outcome.reason}"


def stopped_gently(_course: Course, life: Life, without: Life) -> Iterator[str]:
    """I6: SIGTERM comes before SIGKILL; a sandbox is stopped when nothing of it runs (that preStop comes first, the model checks)."""
    if len(life.ledger.killed) > len(without.ledger.killed):
        yield f"killed without SIGTERM: {life.ledger.killed}"


def hooks_once(_course: Course, life: Life, _without: Life) -> Iterator[str]:
    """I6: a hook of an instance runs once; again only if its worker died before its outcome was recorded."""
    runs, broken_off = Counter(life.ledger.hooked), Counter(life.ledger.broken_off)
    yield from (f"ran {number} times: {one}" for one, number in runs.items() if number > 1 + broken_off[one])


def no_more_made(course: Course, life: Life, without: Life) -> Iterator[str]:
    """I10: no container is made that the life without a fault did not make."""
    if course.deleted_at is None and sorted(life.ledger.made) != sorted(without.ledger.made):
        yield f"made {life.ledger.made}, not {without.ledger.made}"


INVARIANTS: Final[dict[str, tuple[Invariant, ...]]] = {
    "I1": (one_live,),
    "I2": (nothing_left,),
    "I3": (counted,),
    "I4": (phases_end,),
    "I5": (same_end,),
    "I6": (stopped_gently, hooks_once),
    "I10": (no_more_made,),
}
"""I7, the order, is asserted by the model itself, and told as I1."""


def broken(course: Course, life: Life, without: Life) -> list[str]:
    """Name every invariant that does not hold."""
    if life.struck is not (course.boundary is not None):
        return ["the fault did not happen"]
    return [
        f"{name}: {what}"
        for name, rules in INVARIANTS.items()
        for rule in rules
        for what in rule(course, life, without)
    ]
