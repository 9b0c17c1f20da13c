"""Are eviction thresholds parsed as by the kubelet, and are their limits reported?"""

from datetime import timedelta
from pathlib import Path

import pytest

from proto.temporal.eviction.thresholds import Amount, EvictionPolicy, Signal, Threshold
from tests.worker.settings.test_config import load
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.reserved import Reserved, with_thresholds
from workflows.decide.eviction.amounts import amount_of

GI = 1024**3
MI = 1024**2


def thresholds(tmp_path: Path, text: str) -> dict[str, Threshold]:
    """Read a configuration's thresholds, by signal; of a hard and a soft one the soft one."""
    return {str(one.signal): one for one in load(tmp_path, text).eviction.thresholds}


def test_the_defaults_are_the_kubelets_for_linux(tmp_path: Path) -> None:
    """They give no warning."""
    config = load(tmp_path, "")
    assert config.warnings == ()
    assert config.eviction.transition == timedelta(minutes=5)
    found = {str(one.signal): one.least for one in config.eviction.thresholds}
    assert found["memory.available"] == found["allocatableMemory.available"] == Amount("100Mi")
    assert {signal: round(one.share, 6) for signal, one in found.items() if one.share} == {
        "nodefs.available": 0.1,
        "nodefs.inodesFree": 0.05,
        "imagefs.available": 0.15,
        "imagefs.inodesFree": 0.05,
    }


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        pytest.param("evictionHard: {pid.available: '10'}", {"pid.available"}, id="what-is-said-stands-alone"),
        pytest.param("evictionHard: {}", set(), id="nothing-is-said-and-meant"),
        pytest.param(
            "evictionHard: {pid.available: '10', nodefs.available: 0%}\nmergeDefaultEvictionSettings: true",
            {
                "pid.available",
                "memory.available",
                "allocatableMemory.available",
                "nodefs.inodesFree",
                "imagefs.available",
                "imagefs.inodesFree",
            },
            id="merged-into-the-defaults-and-nought-takes-one-away",
        ),
        pytest.param("evictionHard: {memory.available: 100%}", set(), id="a-hundred-per-cent-is-none"),
        pytest.param(
            "evictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: []",
            {"memory.available"},
            id="the-pods-cgroup-has-one-only-if-it-is-limited",
        ),
    ],
)
def test_which_thresholds_there_are(tmp_path: Path, text: str, signals: set[str]) -> None:
    """EvictionHard replaces the defaults unless it is merged into them."""
    assert thresholds(tmp_path, text).keys() == signals


def test_a_soft_threshold_has_its_grace_and_a_reclaim(tmp_path: Path) -> None:
    """Beside the hard ones."""
    text = (
        "evictionHard: {}\nevictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n"
        "evictionMinimumReclaim: {memory.available: 10%}"
    )
    found = thresholds(tmp_path, text)["memory.available"]
    assert (found.least, found.grace) == (Amount("1Gi"), timedelta(seconds=90))
    assert found.reclaim
    assert round(found.reclaim.share, 6) == 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "evictionHard: {cpu.available: 10%}",
            "evictionHard: unsupported eviction signal cpu.available",
            id="no-signal",
        ),
        pytest.param("evictionHard: {memory.available: much}", "evictionHard: quantities must", id="no-amount"),
        pytest.param(
            "evictionHard: {memory.available: 101%}",
            "evictionHard: .* memory.available must be <= 100%: 101%",
            id="above-all",
        ),
        pytest.param(
            "evictionHard: {memory.available: -1%}",
            "evictionHard: .* memory.available must be >= 0%: -1%",
            id="below-nothing",
        ),
        pytest.param(
            "evictionHard: {memory.available: ten%}",
            'evictionHard: strconv.ParseFloat: parsing "ten": invalid syntax',
            id="no-percentage",
        ),
        pytest.param(
            "evictionHard: {memory.available: '0'}",
            "evictionHard: eviction threshold memory.available must be positive: 0",
            id="nought",
        ),
        pytest.param(
            "evictionSoft: {memory.available: 1Gi}",
            "evictionSoft: grace period must be specified for the soft eviction threshold memory.available",
            id="no-grace",
        ),
        pytest.param(
            "evictionSoftGracePeriod: {memory.available: soon}",
            'evictionSoftGracePeriod: time: invalid duration "soon"',
            id="no-duration",
        ),
        pytest.param(
            "evictionSoftGracePeriod: {memory.available: -1s}",
            "invalid eviction grace period specified: -1s, must be a positive value",
            id="a-negative-grace",
        ),
    ],
)
def test_what_is_no_threshold_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With key and signal."""
    with pytest.raises(ConfigurationRefused, match=message):
        load(tmp_path, text)


def test_soft_evictions_have_a_longest_grace_period(tmp_path: Path) -> None:
    """None at all by default; the pods' own limits are judged in their workflows."""
    assert load(tmp_path, "").eviction.longest_grace_seconds == 0
    said = load(tmp_path, "evictionMaxPodGracePeriod: 60").eviction
    assert (said.longest_grace_seconds, said.local_storage) == (60, False)


@pytest.mark.parametrize(
    ("eviction", "kept"),
    [
        pytest.param(EvictionPolicy(), Reserved(1, GI, GI), id="no-threshold-keeps-nothing-back"),
        pytest.param(
            EvictionPolicy((Threshold(Signal.MEMORY, Amount("100Mi")),)),
            Reserved(1, GI + 100 * MI, GI),
            id="memory",
        ),
        pytest.param(
            EvictionPolicy((Threshold(Signal.NODE_FS, Amount(share=0.5)),)),
            Reserved(1, GI, 5 * GI),
            id="a-share-of-the-disk",
        ),
        pytest.param(
            EvictionPolicy((Threshold(Signal.MEMORY, Amount(share=0.5), timedelta(minutes=1)),)),
            Reserved(1, GI, GI),
            id="a-soft-one-keeps-nothing-back",
        ),
        pytest.param(
            EvictionPolicy((Threshold(Signal.IMAGE_FS, Amount(share=0.5)),)), Reserved(1, GI, GI), id="nor-do-images"
        ),
    ],
)
def test_hard_thresholds_are_kept_back(eviction: EvictionPolicy, kept: Reserved) -> None:
    """Of 4 GiB of memory and 8 of disk."""
    assert with_thresholds(Reserved(1, GI, GI), eviction, 4 * GI, 8 * GI) == kept


def test_a_percentage_keeps_back_what_the_kubelet_does(tmp_path: Path) -> None:
    """Its percentages are 32-bit floats: 10% of a disk of 100 GB is 149 bytes more."""
    least = thresholds(tmp_path, "")["nodefs.available"].least
    assert amount_of(least, 100 * 10**9).value == 10_000_000_149
