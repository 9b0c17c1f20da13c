"""How long does a container have between SIGTERM and SIGKILL?"""

from datetime import timedelta
from typing import Any

import pytest

from proto.temporal.pod_inputs import Eviction, Shortening
from tests.workflows.decide.situations import at, deletion, pod, situation
from workflows.decide.ending.grace import effective_grace, end_awaited_until, pod_grace


@pytest.mark.parametrize(
    ("own", "asked", "grace"),
    [
        pytest.param(30, None, 30, id="the-pod-s-own"),
        pytest.param(None, None, 30, id="thirty-seconds-when-it-says-nothing"),
        pytest.param(30, 5, 5, id="what-the-deletion-asks-for-counts"),
        pytest.param(30, 90, 90, id="also-when-it-is-longer"),
        pytest.param(30, 0, 1, id="never-below-a-second"),
        pytest.param(0, None, 1, id="a-pod-without-grace-has-a-second-too"),
        pytest.param(-1, None, 1, id="a-negative-grace-is-a-second"),
        pytest.param(2**63 - 1, None, 2**31 - 1, id="the-api-s-longest-still-ends-at-a-date"),
        pytest.param(30, 10**12, 2**31 - 1, id="so-does-a-deletion-s"),
    ],
)
def test_pod_grace(own: int | None, asked: float | None, grace: float) -> None:
    """The deletion's grace period, or else the pod's."""
    spec = situation(pod(terminationGracePeriodSeconds=own)).spec
    wish = None if asked is None else timedelta(seconds=asked)
    assert pod_grace(spec, wish) == timedelta(seconds=grace)


def shortened(grace: float) -> Shortening:
    """Build an operator's request to stop within this many seconds."""
    return Shortening(at(0), timedelta(seconds=grace), "root@node-1")


EVICTED = Eviction(at(-10), "DeadlineExceeded", "too long")


@pytest.mark.parametrize(
    ("known", "over_at"),
    [
        pytest.param({}, 30, id="the-pod-s-own-from-now"),
        pytest.param({"deletion": deletion(grace=5, asked=-3)}, 2, id="the-deletion-s-from-when-it-was-asked"),
        pytest.param({"deletion": deletion(grace=0)}, 1, id="never-below-a-second"),
        pytest.param({"deletion": deletion(grace=5, asked=-20, again=-1)}, 4, id="a-second-wish-s-from-when-it-came"),
        pytest.param({"eviction": EVICTED}, 20, id="an-evicted-pod-s-own-from-the-eviction"),
        pytest.param(
            {"eviction": EVICTED, "deletion": deletion(asked=-2)}, 20, id="deleted-later-it-is-not-lengthened"
        ),
        pytest.param({"eviction": EVICTED, "deletion": deletion(grace=2)}, 2, id="deleted-sooner-it-is-shortened"),
        pytest.param({"deletion": deletion(), "shortening": shortened(5)}, 5, id="an-operator-s-from-when-he-asked"),
        pytest.param({"deletion": deletion(grace=2), "shortening": shortened(5)}, 2, id="he-lengthens-nothing"),
        pytest.param({"eviction": EVICTED, "shortening": shortened(0)}, 1, id="his-too-is-never-below-a-second"),
        pytest.param({"finished_at": at(-5), "shortening": shortened(3)}, 3, id="also-of-a-pod-that-has-finished"),
    ],
)
def test_which_grace_counts(known: dict[str, Any], over_at: float) -> None:
    """Seconds from now until SIGKILL."""
    assert effective_grace(situation(**known)).over_at == at(over_at)


@pytest.mark.parametrize(
    ("eviction", "own", "until"),
    [
        pytest.param(None, 30, None, id="nobody-ends-it"),
        pytest.param(Eviction(at(0), "Preempting", "", None), 30, 45, id="half-as-long-again-as-its-own"),
        pytest.param(Eviction(at(0), "Preempting", "", None), 21, 31, id="in-whole-seconds"),
        pytest.param(Eviction(at(0), "Preempting", "", None), 0, 10, id="never-below-ten-seconds"),
        pytest.param(Eviction(at(-3), "Evicted", "", timedelta(seconds=1)), 30, 7, id="from-the-eviction"),
        pytest.param(Eviction(at(0), "Terminated", "", timedelta(seconds=20)), 60, 30, id="as-a-shutdown-allows"),
        pytest.param(Eviction(at(0), "DeadlineExceeded", ""), 30, None, id="its-own-deadline"),
        pytest.param(Eviction(at(0), "OutOfcpu", "Pod was rejected: no cpu"), 30, None, id="it-never-began"),
    ],
)
def test_until_when_an_end_by_the_node_is_awaited(eviction: Eviction | None, own: int, until: float | None) -> None:
    """As killPodNow computes it."""
    found = end_awaited_until(situation(pod(terminationGracePeriodSeconds=own), eviction=eviction))
    assert found == (None if until is None else at(until))
