"""What a lead begins with: a state, and what the journal has after it.

What happened after the state was kept is recorded in the loop, so that nothing is done twice when another process leads on. What the
state knows, and the history may lack, is told by the story.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from proto.temporal import names
from proto.temporal.activities.requests import PodRuntime, RuntimeContainer
from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.pod import ContainerState, Exit, Observed
from proto.temporal.pod_inputs import CarriedAction
from worker.stand_in.in_process_driver import InProcessDriver
from workflows.decide import carrying
from workflows.decide.actions import Action, key
from workflows.decide.containers.instances import UNKNOWN_REASON
from workflows.loops.calls import action_type
from workflows.loops.driver import Failed
from workflows.loops.pod_loop import PodLoop


def fold(loop: PodLoop, driver: InProcessDriver, entries: Iterable[StoryEntry]) -> None:
    """Record entries in their order, as of their times, and drop the actions that have ended from what the loop begins with."""
    clock = driver.clock
    carried = [driver.converted(one.request, carrying.kind_of(one)) for one in loop.start.under_way]
    under_way: dict[str, Action] = {key(one): one for one in carried}
    try:
        for entry in entries:
            driver.clock = lambda at=entry.at: at  # type: ignore[misc]  # the default binds it
            _record(loop, driver, under_way, entry)
            loop.record_all()
    finally:
        driver.clock = clock
    actions = tuple(CarriedAction(action_type(one).name, one) for one in under_way.values())
    loop.start = replace(loop.start, under_way=actions)


def _record(loop: PodLoop, driver: InProcessDriver, under_way: dict[str, Action], entry: StoryEntry) -> None:
    match entry.kind:
        case EntryKind.SCHEDULED if entry.value is not None:
            carried = CarriedAction(entry.name, entry.value)
            under_way[entry.key] = driver.converted(entry.value, carrying.kind_of(carried))
        case EntryKind.COMPLETED if action := under_way.pop(entry.key, None):
            result = action_type(action).result
            if result is None or entry.value is not None:
                loop.queue((action, driver.converted(entry.value, result) if result else None))
        case EntryKind.FAILED if action := under_way.pop(entry.key, None):
            loop.queue((action, Failed(entry.reason, entry.message)))
        case EntryKind.CANCELLED:
            under_way.pop(entry.key, None)
        case EntryKind.SIGNALLED if entry.name in loop.signal_shapes and entry.value is not None:
            loop.queue(driver.converted(entry.value, loop.signal_shapes[entry.name]))


def known_ends(observed: Observed, at: datetime) -> Iterable[StoryEntry]:
    """Return an entry with the ends of containers that the state knows, if there are any.

    The workflow task that read an end may never have been committed, because Temporal went away: then no event has it. An end that is told
    already is not told again.
    """
    ends = tuple(
        _ended(name, facts.sandbox_id, facts.attempt, facts.exit)
        for name, facts in observed.containers.items()
        if facts.exit and facts.exit.container_id and facts.exit.reason != UNKNOWN_REASON
    )
    if ends:
        yield StoryEntry(at, EntryKind.COMPLETED, names.READ_POD_RUNTIME, value=PodRuntime(containers=ends))


def _ended(name: str, sandbox_id: str, attempt: int, end: Exit) -> RuntimeContainer:
    return RuntimeContainer(
        name,
        end.container_id,
        sandbox_id,
        attempt,
        ContainerState.EXITED,
        started_at=end.started_at,
        finished_at=end.finished_at,
        exit_code=end.exit_code,
        reason=end.reason,
        message=end.message,
    )
