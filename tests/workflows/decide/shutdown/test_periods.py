"""Which periods does a configuration give, and which one does the kubelet refuse, in which words?"""

from datetime import timedelta

import pytest

from workflows.decide.shutdown.periods import Period, ShutdownConfig, faults, periods, requested

CRITICAL = 2_000_000_000


def seconds(number: float) -> timedelta:
    """Return a duration."""
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(ShutdownConfig(), (), id="nothing-is-said"),
        pytest.param(
            ShutdownConfig(seconds(30), seconds(10)),
            (Period(0, 20), Period(CRITICAL, 10)),
            id="two-kinds-share-the-whole",
        ),
        pytest.param(ShutdownConfig(seconds(30)), (Period(0, 30), Period(CRITICAL, 0)), id="none-for-critical-pods"),
        pytest.param(
            ShutdownConfig(seconds(30), seconds(30)),
            (Period(0, 0), Period(CRITICAL, 30)),
            id="all-for-critical-pods",
        ),
        pytest.param(
            ShutdownConfig(seconds(10.9), seconds(5.5)), (Period(0, 5), Period(CRITICAL, 5)), id="whole-seconds"
        ),
        pytest.param(
            ShutdownConfig(by_priority=(Period(1000, 5), Period(-1, 3), Period(10, 4))),
            (Period(-1, 3), Period(10, 4), Period(1000, 5)),
            id="sorted-by-priority",
        ),
        pytest.param(ShutdownConfig(seconds(30), seconds(10), gate=False), (), id="without-its-gate-nothing"),
        pytest.param(
            ShutdownConfig(seconds(3), seconds(1), (Period(5, 5),), priority_gate=False),
            (Period(0, 2), Period(CRITICAL, 1)),
            id="without-the-gate-of-priorities-two-kinds",
        ),
    ],
)
def test_periods(config: ShutdownConfig, expected: tuple[Period, ...]) -> None:
    """Sorted from low to high."""
    assert periods(config) == expected


def test_the_delay_is_the_sum() -> None:
    """Of all periods, also of those that no pod will need."""
    assert requested((Period(0, 20), Period(CRITICAL, 10))) == seconds(30)
    assert requested(()) == seconds(0)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(ShutdownConfig(seconds(30), seconds(10)), [], id="fine"),
        pytest.param(ShutdownConfig(seconds(1), seconds(1)), [], id="a-second-is-enough"),
        pytest.param(
            ShutdownConfig(seconds(30), seconds(60)),
            ["shutdownGracePeriodCriticalPods 1m0s must be <= shutdownGracePeriod 30s"],
            id="more-for-critical-pods-than-there-is",
        ),
        pytest.param(
            ShutdownConfig(seconds(-1)),
            [
                "shutdownGracePeriodCriticalPods 0s must be <= shutdownGracePeriod -1s",
                "shutdownGracePeriod -1s must be either zero or otherwise >= 1 sec",
            ],
            id="below-nought",
        ),
        pytest.param(
            ShutdownConfig(seconds(2), seconds(0.5)),
            ["shutdownGracePeriodCriticalPods 500ms must be either zero or otherwise >= 1 sec"],
            id="less-than-a-second",
        ),
        pytest.param(
            ShutdownConfig(seconds(0.5)),
            ["shutdownGracePeriod 500ms must be either zero or otherwise >= 1 sec"],
            id="the-whole-less-than-a-second",
        ),
        pytest.param(
            ShutdownConfig(seconds(30), gate=False),
            [
                "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown"
            ],
            id="without-the-gate",
        ),
        pytest.param(
            ShutdownConfig(seconds(30), by_priority=(Period(0, 1),)),
            ["Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"],
            id="both-kinds",
        ),
        pytest.param(
            ShutdownConfig(by_priority=(Period(0, 1),), priority_gate=False),
            [
                "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority"
            ],
            id="without-the-gate-of-priorities",
        ),
    ],
)
def test_faults(config: ShutdownConfig, expected: list[str]) -> None:
    """All of them, in the kubelet's words."""
    assert list(faults(config)) == [f"invalid configuration: {one}" for one in expected]
