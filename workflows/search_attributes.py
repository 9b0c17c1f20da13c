"""The search attributes of a pod's workflow: an event in the history for each change."""

from typing import Final

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from workflows.decide.status.status import PodSummary, announced_summary

PHASE: Final = SearchAttributeKey.for_keyword("PodPhase")
READY: Final = SearchAttributeKey.for_keyword("PodReady")
REASON: Final = SearchAttributeKey.for_keyword("PodReason")
RESTARTS: Final = SearchAttributeKey.for_int("PodRestarts")


def announced() -> PodSummary:
    """Read the search attributes that the start of this workflow or its previous run set."""
    known = workflow.info().typed_search_attributes
    return PodSummary(
        phase=known.get(PHASE, "Pending"),
        ready=known.get(READY, "False") == "True",
        reason=known.get(REASON, ""),
        restarts=known.get(RESTARTS, 0),
    )


def announce(line: PodSummary, before: PodSummary) -> PodSummary:
    """Upsert the search attributes that changed; an ordinary wait is not shown as a reason. Returns what they then say."""
    after = announced_summary(line)
    updates = [
        key.value_set(new)
        for key, old, new in (
            (PHASE, before.phase, after.phase),
            (READY, str(before.ready), str(after.ready)),
            (REASON, before.reason, after.reason),
        )
        if old != new
    ]
    if before.restarts != after.restarts:
        workflow.upsert_search_attributes([*updates, RESTARTS.value_set(after.restarts)])
    elif updates:
        workflow.upsert_search_attributes(updates)
    return after
