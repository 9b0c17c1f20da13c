"""What the histories of a run's pods tell, without times and ids, so that they compare with those of pods that saw no outage."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from tests.node.operating import tempolet
from tests.node.tempolet_node import TempoletNode

LISTED_WITHIN: Final = 30.0
"""Seconds: visibility lags."""
FACTS: Final = tuple(
    (re.compile(pattern), fact)
    for pattern, fact in (
        (r"manifest \S+ listed", "listed"),
        (r"sandbox attempt (\d+) (?:ready|found)", r"sandbox \1 ready"),
        (
            r"container (\S+) started(, restart \d+|)[^:]*(?:: (policy .*?), (?:back-off .*|without back-off)$)?",
            r"\1 started\2 \3",
        ),
        (r"container (\S+) (ended|stopped): (exit \d+ \w+)", r"\1 \2: \3"),
        (r"(p\w+) of (\S+)(.*?) done in", r"\1 of \2\3 done"),
        (r"(container \S+ failed its liveness probe)", r"\1"),
        (r"deletion requested by (\S+) (\w+)", r"deletion requested: \1 \2"),
        (r"(sandbox stopped|sandbox removed|directories, logs and cgroup removed|volume \S+ unmounted)", r"\1"),
        (r"(the pod is gone: \w+, restarts \d+)", r"\1"),
    )
)
"""Sentences that do not depend on how fast things went. Left out are back-offs, waits, readiness and status: quick changes are merged."""
REPEATED: Final = ("sandbox stopped", "sandbox removed", "volume ", "directories")
"""What may be done, and told, twice: it succeeds when there is nothing to do."""


def facts_of(texts: Iterable[str]) -> Counter[str]:
    """Return what a story tells, and how often."""
    return Counter(fact for text in texts for fact in _fact(text))


def difference(told: Counter[str], expected: Counter[str]) -> list[str]:
    """Return what a story tells too often, or not often enough."""
    missing = [f"not told: {text}" for text in (expected - told).elements()]
    return missing + [
        f"told once more: {text}" for text in (told - expected).elements() if not text.startswith(REPEATED)
    ]


def told_of(node: TempoletNode, pod: str, uid: str, *, whole: bool) -> list[str]:
    """Return the lines of a pod's history, as `tempolet history` tells them; none if there is no history.

    One that is `whole` has its begin, though a run that replaced another one may be listed first.
    """
    selected = ("--uid", uid, "-o", "json", f"default/{pod}-{node.name}")
    deadline = time.monotonic() + LISTED_WITHIN
    while True:
        code, said = tempolet(node, "history", *selected)
        texts = [line["text"] for line in json.loads(said)[0]["lines"]] if code == 0 else []
        if (texts and not whole) or any("listed" in _fact(text) for text in texts) or time.monotonic() > deadline:
            return texts
        print(f"no whole history of {pod} yet: {texts or said.strip()}", flush=True)
        time.sleep(1)


def _fact(text: str) -> Iterable[str]:
    for pattern, fact in FACTS:
        if found := pattern.match(text):
            return [found.expand(fact).strip()]
    return []
