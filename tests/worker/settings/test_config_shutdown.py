"""Are the keys of a graceful shutdown read, and refused in the kubelet's words?"""

from pathlib import Path

import pytest

from tests.worker.settings.test_config import HEAD, load
from worker.settings.kubelet.configuration import ConfigurationRefused, load_kubelet_configuration
from worker.settings.kubelet.feature_gates import set_gates
from worker.settings.kubelet.shutdown import shutdown_periods
from workflows.decide.shutdown.periods import Period


def periods(tmp_path: Path, text: str) -> tuple[Period, ...]:
    """Read a configuration's periods."""
    file = tmp_path / "kubelet.yaml"
    file.write_text(HEAD + text)
    kubelet = load_kubelet_configuration(file, None)
    return shutdown_periods(kubelet, set_gates(kubelet["featureGates"] or {}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", (), id="nothing-is-said"),
        pytest.param("shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s", (), id="nought-is-said"),
        pytest.param(
            "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s",
            (Period(0, 20), Period(2_000_000_000, 10)),
            id="two-kinds",
        ),
        pytest.param(
            "shutdownGracePeriodByPodPriority: [{priority: 100, shutdownGracePeriodSeconds: 5}, {shutdownGracePeriodSeconds: 9}]",
            (Period(0, 9), Period(100, 5)),
            id="by-priority",
        ),
    ],
)
def test_periods(tmp_path: Path, text: str, expected: tuple[Period, ...]) -> None:
    """What a file says."""
    assert periods(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            "shutdownGracePeriod: 1s\nshutdownGracePeriodCriticalPods: 2s",
            "invalid configuration: shutdownGracePeriodCriticalPods 2s must be <= shutdownGracePeriod 1s",
            id="more-for-critical-pods",
        ),
        pytest.param(
            "shutdownGracePeriod: 1s\nfeatureGates: {GracefulNodeShutdown: false}",
            "requires feature gate GracefulNodeShutdown",
            id="gate-off",
        ),
        pytest.param(
            "shutdownGracePeriod: 1s\nshutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 5}]",
            "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
            id="both",
        ),
        pytest.param(
            "shutdownGracePeriodByPodPriority: [{priority: x}]",
            "shutdownGracePeriodByPodPriority",
            id="no-number",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """Before anything is touched."""
    with pytest.raises(ConfigurationRefused, match=why):
        load(tmp_path, text)
