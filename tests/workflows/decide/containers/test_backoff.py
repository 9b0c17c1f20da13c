"""How long is a container's back-off before a restart, and an image's before the next pull?"""

from datetime import timedelta
from itertools import pairwise

import pytest

from tests.workflows.decide.situations import at
from workflows.decide.containers.backoff import Backoff, after_restart, due, next_image_delay

FIVE_MINUTES = timedelta(minutes=5)


def seconds(*numbers: float) -> list[timedelta]:
    """Return durations."""
    return [timedelta(seconds=number) for number in numbers]


@pytest.mark.parametrize(
    ("earned", "ended", "starts"),
    [
        pytest.param(Backoff(), 0, 0, id="the-first-restart-comes-at-once"),
        pytest.param(Backoff(timedelta(seconds=10), at(-1)), 0, 10, id="the-second-waits-for-what-the-first-earned"),
        pytest.param(Backoff(FIVE_MINUTES, at(-301)), 0, 300, id="the-wait-counts-from-the-end-not-from-the-start"),
        pytest.param(Backoff(FIVE_MINUTES, at(-600)), 0, 300, id="ten-minutes-to-the-second-are-not-forgiven"),
        pytest.param(Backoff(FIVE_MINUTES, at(-601)), 0, 0, id="more-than-ten-minutes-are-forgiven"),
        pytest.param(Backoff(timedelta(seconds=10)), 0, 0, id="a-delay-of-unknown-age-is-forgiven"),
    ],
)
def test_due(earned: Backoff, ended: float, starts: float) -> None:
    """A container that exited then is restarted when its back-off is over."""
    assert due(earned, at(ended)) == at(starts)


@pytest.mark.parametrize(
    ("earned", "maximum", "delay"),
    [
        pytest.param(Backoff(), FIVE_MINUTES, 10, id="the-first-restart-earns-ten-seconds"),
        pytest.param(Backoff(timedelta(seconds=10), at(-30)), FIVE_MINUTES, 20, id="each-further-one-doubles"),
        pytest.param(Backoff(timedelta(seconds=160), at(-30)), FIVE_MINUTES, 300, id="up-to-the-maximum"),
        pytest.param(Backoff(FIVE_MINUTES, at(-400)), FIVE_MINUTES, 300, id="and-no-further"),
        pytest.param(Backoff(FIVE_MINUTES, at(-700)), FIVE_MINUTES, 10, id="a-forgiven-one-begins-anew"),
        pytest.param(Backoff(), timedelta(seconds=1), 1, id="a-node-s-maximum-below-ten-seconds-counts-at-once"),
        pytest.param(Backoff(timedelta(seconds=10), at(-5)), timedelta(seconds=1), 1, id="a-lowered-maximum-counts"),
    ],
)
def test_after_restart(earned: Backoff, maximum: timedelta, delay: float) -> None:
    """A restart now sets the delay of the next one, counted from now."""
    assert after_restart(earned, at(0), at(3), maximum) == Backoff(timedelta(seconds=delay), at(3))


def test_a_crash_loop_waits_as_the_kubelet_documents() -> None:
    """A container that exits at once starts after 0, 10, 20, 40, 80, 160, 300, 300 s."""
    earned, now, starts = Backoff(), at(0), []
    for _ in range(8):
        begun = due(earned, now)
        starts.append(begun - now)
        earned, now = after_restart(earned, now, begun, FIVE_MINUTES), begun
    assert starts == seconds(0, 10, 20, 40, 80, 160, 300, 300)


@pytest.mark.parametrize(
    ("previous", "delay"),
    [
        pytest.param(None, 10, id="the-first-failure"),
        pytest.param(10, 20, id="the-second"),
        pytest.param(160, 300, id="up-to-five-minutes"),
        pytest.param(300, 300, id="and-no-further"),
    ],
)
def test_image_delay(previous: float | None, delay: float) -> None:
    """A failed pull waits 10, 20, 40 … 300 s."""
    known = None if previous is None else timedelta(seconds=previous)
    assert next_image_delay(known, *seconds(10, 300)) == timedelta(seconds=delay)


def test_an_image_delay_never_exceeds_its_maximum() -> None:
    """Even if the node's maximum is below its initial delay."""
    assert next_image_delay(None, *seconds(10, 3)) == timedelta(seconds=3)


def test_image_delays_only_grow() -> None:
    """Each is at least the previous one."""
    delays = [timedelta(seconds=10)]
    for _ in range(20):
        delays.append(next_image_delay(delays[-1], *seconds(10, 300)))
    assert all(earlier <= later for earlier, later in pairwise(delays))
