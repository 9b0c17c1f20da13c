"""Do the generated lives contain whatever can happen to a pod and a node, often enough to be combined with other things?

Counted over the lives of the newest two behaviours that `make test` replays, which differ little: the newest number's are few until its release.
If something is missing, let `tests/replay/lives` draw it before the lives of that behaviour are recorded.
"""

import functools
from collections import Counter

import pytest

from proto.temporal import names
from tests.replay.lives.archive import archives, behaviour_of, read
from tests.replay.lives.choosing import SELDOM, chosen
from tests.replay.lives.tally import LEFT_OUT, ONE_MORE, tally
from workflows.decide.actions import ACTIONS
from workflows.decide.node.actions import NODE_ACTIONS
from workflows.decide.versions import CURRENT, CURRENT_NODE
from workflows.loops.node_loop import REQUESTS as NODE_REQUESTS
from workflows.loops.node_loop import NodeLoop
from workflows.loops.operator_requests import REQUESTS
from workflows.loops.pod_loop import PodLoop

OFTEN = 10
RARE = {f"{names.MAKE_POD_DIRECTORIES} failed", f"{names.UNPREPARE_RESOURCES} failed", ONE_MORE}
"""Drawn once in some 400 lives. From behaviour 2 on directories are made only for a sandbox that was adopted; few pods have claims, or mount one more volume."""
ENDLESS = {names.PROBE_CONTAINER, names.WATCH_IMAGES}
"""Actions that end with what they observe."""
HAND_BACK = {names.WHILE_AWAY, names.HANDED_BACK}
"""Only a node that led without Temporal sends these; tests/workflows/test_hand_back.py, and test_node_hand_back.py in tests/worker/stand_in/hand_back, replay what they leave."""
BEFORE_IT_BEGAN = ("ended", "rejected", "started_at", "deleted", "grace", "conditions")
ENDS = ("behaviour raised", "continued as new by events", "cancel of the workflow", "history lost")
BY_SIGNALS = "continued as new by signals"
"""Seldom for a pod: its runs continue after 500 events, unless 2,000 signals come between two of its tasks."""


POD_WORDS = [
    *(f"activity {call.name}" for call in ACTIONS.values()),
    *(f"signal {name}" for name in PodLoop.signal_shapes if name not in HAND_BACK),
    *(f"update {name}" for name in REQUESTS),
    *(f"first sight {part}" for part in BEFORE_IT_BEGAN),
    *ENDS,
    "restart of the machine",
    "continued as new for the pod is listed again",
    LEFT_OUT,
    *(f"ended {phase}" for phase in ("Succeeded", "Failed")),
    *(f"source {source}" for source in ("file", names.API_SOURCE)),
    "timer fired",
    "timer canceled",
]
POD_FAILURES = [f"{call.name} failed" for call in ACTIONS.values() if call.name not in ENDLESS]
AT_ONCE = [f"{call.name} {how} at once" for call in ACTIONS.values() if call.at_once for how in ("answered", "failed")]
EVICTED = "evicted and succeeded"
GIVEN_UP = [f"{name} given up" for name in (names.PULL_IMAGE, names.AWAIT_PREDECESSOR, names.RUN_HOOK)]
NODE_WORDS = [
    *(f"activity {call.name}" for call in NODE_ACTIONS.values()),
    *(f"signal {name}" for name in NodeLoop.signal_shapes if name not in HAND_BACK),
    *(f"update {name}" for name in NODE_REQUESTS),
    *ENDS,
    BY_SIGNALS,
]
NODE_FAILURES = [f"{call.name} failed" for call in NODE_ACTIONS.values()]


@functools.cache
def counted(kind: str) -> Counter[str]:
    """Count over the chosen lives of the newest behaviours."""
    newest = {CURRENT, CURRENT - 1} if kind == "pod" else {CURRENT_NODE}
    return tally(
        run for path in archives(kind) if behaviour_of(path) in newest for run in read(path, only=chosen(path))
    )


@pytest.mark.parametrize("word", POD_WORDS)
def test_it_happens_often_to_pods(word: str) -> None:
    """Every activity, signal, update, start and end."""
    assert counted("pod")[word] >= OFTEN


@pytest.mark.parametrize("word", [*POD_FAILURES, *AT_ONCE, *GIVEN_UP, EVICTED, BY_SIGNALS, ONE_MORE])
def test_it_happens_to_pods(word: str) -> None:
    """Every action has failed, and every cancellable one was cancelled."""
    assert counted("pod")[word] >= (1 if word in RARE else SELDOM)


@pytest.mark.parametrize("word", [*NODE_WORDS, *NODE_FAILURES])
def test_it_happens_to_nodes(word: str) -> None:
    """The same for the node's workflow."""
    assert counted("node")[word] >= SELDOM
