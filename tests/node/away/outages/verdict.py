"""Compares a run of outages with what its pods do and tell without one."""

import re
from collections import Counter

from tests.node.away.outages.outages_run import OutagesRun
from tests.node.away.outages.pod_lives import Life
from tests.node.away.outages.stories import difference, facts_of, told_of

GONE = re.compile("the pod is gone")
ENDS_EARLY = re.compile("not told: |told once more: (the pod is gone|[a-z]+ stopped|deletion requested)")
"""In what the story of a pod that is deleted at any moment differs from one of its shape."""


def findings(run: OutagesRun, *, is_history_kept: bool = True) -> list[str]:
    """Return everything in which a run differs from one without outages."""
    found = [f"ran twice at once: {one}" for one in run.doubled]
    for life in run.lives:
        about = [*_wrong_lines(run, life), *_wrong_stories(run, life, is_history_kept)]
        found += [f"{life.name}{' (cut short)' if life.is_cut_short else ''}: {one}" for one in about]
        if about:
            run.said(
                "\n".join([f"{life.name}: {about}", *(f"    {text}" for one in _stories(run, life) for text in one)])
            )
    return found


def _wrong_lines(run: OutagesRun, life: Life) -> list[str]:
    """Compare what containers and hooks did: starts beyond what was done to the pod, hooks that ran twice."""
    did, most = run.ledger.lines(life.name), Counter(life.shape.lines)
    found = [f"done once too often: {line}" for line in (did - most).elements()]
    if not life.is_cut_short:
        found += [f"not done: {line}" for line in (most - did).elements()]
    return found


def _wrong_stories(run: OutagesRun, life: Life, is_history_kept: bool) -> list[str]:
    stories = [*_stories(run, life)]
    found = [f"UID {number} has no history" for number, texts in enumerate(stories) if not texts]
    found += [
        f"the history of UID {number} does not end"
        for number, texts in enumerate(stories)
        if texts and not any(map(GONE.match, texts))
    ]
    if not is_history_kept:
        return found
    wanted = life.shape.told[-1:] if life.is_cut_short else life.shape.told
    for texts, one in zip(stories, wanted, strict=not life.is_cut_short):
        different = difference(facts_of(texts), Counter(one))
        found += [one for one in different if not (life.is_cut_short and ENDS_EARLY.match(one))]
    return found


def _stories(run: OutagesRun, life: Life) -> list[list[str]]:
    return [told_of(run.node, life.name, uid) for uid in run.ledger.uids().get(life.name, [])]
