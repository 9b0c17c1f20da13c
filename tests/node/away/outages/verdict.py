"""Compares a run of outages with what its pods do and tell without one."""

import re
from collections import Counter
from collections.abc import Mapping

from tests.node.away.outages.outages_run import OutagesRun
from tests.node.away.outages.pod_lives import Life
from tests.node.away.outages.stories import difference, facts_of, told_of

GONE = re.compile("the pod is gone")
ENDS_EARLY = re.compile("not told: |told once more: (the pod is gone|[a-z]+ stopped|deletion requested)")
"""In what the story of a pod that is deleted at any moment differs from one of its shape."""


IN_OTHER_WORDS = (
    (re.compile(r"(started, restart \d+) .*"), r"\1"),
    (re.compile(r"stopped: (exit)"), r"ended: \1"),
)
"""What a story leaves out whose begin is lost: why a container was started again, and that its end was asked for."""


def findings(run: OutagesRun) -> list[str]:
    """Return everything in which a run differs from one without outages."""
    found = [f"ran twice at once: {one}" for one in run.doubled]
    for life in run.lives:
        stories = _stories(run, life)
        about = [*_wrong_lines(run, life), *_wrong_stories(run, life, stories)]
        found += [f"{life.name}{' (cut short)' if life.is_cut_short else ''}: {one}" for one in about]
        if about:
            run.said("\n".join([f"{life.name}: {about}", *(f"    {text}" for one in stories.values() for text in one)]))
    return found


def _wrong_lines(run: OutagesRun, life: Life) -> list[str]:
    """Compare what containers and hooks did: starts beyond what was done to the pod, hooks that ran twice."""
    did, most = run.ledger.lines(life.name), Counter(life.shape.lines)
    found = [f"done once too often: {line}" for line in (did - most).elements()]
    if not life.is_cut_short:
        found += [f"not done: {line}" for line in (most - did).elements()]
    return found


def _wrong_stories(run: OutagesRun, life: Life, stories: Mapping[int, list[str]]) -> list[str]:
    """Compare what histories tell; of one of which a part is lost, only that nothing is told twice, and that it ends."""
    found = [f"UID {number} has no history" for number, texts in stories.items() if not texts]
    found += [
        f"the history of UID {number} does not end"
        for number, texts in stories.items()
        if texts and not any(map(GONE.match, texts))
    ]
    wanted = life.shape.told[-1:] if life.is_cut_short else life.shape.told
    if not life.is_cut_short and len(run.ledger.uids()[life.name]) != len(wanted):
        found.append(f"{len(run.ledger.uids()[life.name])} UIDs, not {len(wanted)}")
    for number, texts in stories.items():
        one = wanted[min(number, len(wanted) - 1)]
        if run.is_history_whole(life):
            different = difference(facts_of(texts), Counter(one))
        else:
            told, expected = (_in_other_words(facts) for facts in (_without_stops(life, facts_of(texts)), Counter(one)))
            different = [one for one in difference(told, expected) if not one.startswith("not told: ")]
        found += [one for one in different if not (life.is_cut_short and ENDS_EARLY.match(one))]
    return found


def _without_stops(life: Life, facts: Counter[str]) -> Counter[str]:
    """Leave out the stops of a pod that is deleted at any moment: its shape may have none."""
    return Counter({fact: times for fact, times in facts.items() if not (life.is_cut_short and " stopped: " in fact)})


def _in_other_words(facts: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for fact, times in facts.items():
        for pattern, words in IN_OTHER_WORDS:
            fact = pattern.sub(words, fact)  # noqa: PLW2901 - each pattern has its turn
        found[fact] += times
    return found


def _stories(run: OutagesRun, life: Life) -> dict[int, list[str]]:
    """Return what the history of each UID tells, by its number; Temporal need not have those that it has lost."""
    uids, whole = enumerate(run.ledger.uids().get(life.name, [])), run.is_history_whole(life)
    return {number: told_of(run.node, life.name, uid, whole=whole) for number, uid in uids if uid not in run.forgotten}
