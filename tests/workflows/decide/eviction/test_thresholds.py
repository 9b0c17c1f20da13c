"""Which thresholds does a configuration have, and which one does the kubelet refuse, in which words?"""

from datetime import timedelta

import pytest

from proto.temporal.eviction.thresholds import Amount, Signal, Threshold
from tests.workflows.decide.eviction.pressed_pods import threshold
from workflows.decide.eviction.thresholds import (
    DEFAULT_HARD,
    ThresholdConfig,
    ThresholdError,
    parse_thresholds,
    threshold_faults,
)

MEMORY, NODE_FS = Signal.MEMORY, Signal.NODE_FS
NOT_ENFORCED: tuple[str, ...] = ()
FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(ThresholdConfig({}, enforced=NOT_ENFORCED), [], id="an-empty-map-has-none"),
        pytest.param(
            ThresholdConfig({"memory.available": "150Mi"}, enforced=NOT_ENFORCED),
            [threshold(MEMORY, "150Mi")],
            id="a-quantity",
        ),
        pytest.param(
            ThresholdConfig({"memory.available": "153600Ki"}, enforced=NOT_ENFORCED),
            [threshold(MEMORY, "150Mi")],
            id="in-its-canonical-form",
        ),
        pytest.param(
            ThresholdConfig({"memory.available": "150Mi"}),
            [threshold(MEMORY, "150Mi"), threshold(Signal.ALLOCATABLE_MEMORY, "150Mi")],
            id="pods-enforced-add-the-pods-cgroup",
        ),
        pytest.param(
            ThresholdConfig({}, {"memory.available": "150Mi"}, {"memory.available": "30s"}),
            [threshold(MEMORY, "150Mi", 30)],
            id="a-soft-one-adds-none",
        ),
        pytest.param(
            ThresholdConfig({}, {"memory.available": "150Mi"}, {"memory.available": "0s"}),
            [threshold(MEMORY, "150Mi"), threshold(Signal.ALLOCATABLE_MEMORY, "150Mi")],
            id="a-soft-one-without-patience-is-hard",
        ),
        pytest.param(
            ThresholdConfig({}, {"memory.available": "150Mi"}, {"memory.available": "1ns"}),
            [Threshold(MEMORY, Amount("150Mi"), timedelta(microseconds=1))],
            id="a-grace-of-a-nanosecond-stays-soft",
        ),
        pytest.param(
            ThresholdConfig(
                {"memory.available": "150Mi"},
                {"memory.available": "300Mi"},
                {"memory.available": "30s"},
                {"memory.available": "5Mi", "pid.available": "10"},
                enforced=("pods", "kube-reserved"),
            ),
            [
                threshold(MEMORY, "150Mi", reclaim="5Mi"),
                threshold(MEMORY, "300Mi", 30, reclaim="5Mi"),
                threshold(Signal.ALLOCATABLE_MEMORY, "150Mi", reclaim="5Mi"),
            ],
            id="hard-and-soft-with-a-minimum-reclaim",
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "0%", "imagefs.available": "100%"}, enforced=NOT_ENFORCED),
            [],
            id="nothing-and-everything-switch-it-off",
        ),
        pytest.param(
            ThresholdConfig(
                {"memory.available": "1Gi", "nodefs.inodesFree": "0%"}, merge_defaults=True, enforced=NOT_ENFORCED
            ),
            [
                threshold(MEMORY, "1Gi"),
                *parse_thresholds(
                    ThresholdConfig(
                        {
                            name: text
                            for name, text in DEFAULT_HARD.items()
                            if name not in ("memory.available", "nodefs.inodesFree")
                        },
                        enforced=NOT_ENFORCED,
                    )
                ),
            ],
            id="defaults-for-what-is-not-named",
        ),
    ],
)
def test_thresholds(config: ThresholdConfig, expected: list[Threshold]) -> None:
    """As ParseThresholdConfig and cmd/kubelet/app/server.go."""
    assert not list(threshold_faults(config))
    assert sorted(parse_thresholds(config), key=str) == sorted(expected, key=str)


def test_a_configuration_without_hard_thresholds_has_the_defaults() -> None:
    """100Mi of memory, for the pods' cgroup too, and the four of the disks."""
    found = {one.signal: one.least for one in parse_thresholds(ThresholdConfig())}
    assert found[MEMORY] == found[Signal.ALLOCATABLE_MEMORY] == Amount("100Mi")
    assert {signal: round(one.share, 4) for signal, one in found.items() if one.share} == {
        Signal.NODE_FS: 0.1,
        Signal.NODE_FS_INODES: 0.05,
        Signal.IMAGE_FS: 0.15,
        Signal.IMAGE_FS_INODES: 0.05,
    }


@pytest.mark.parametrize(
    ("config", "key", "why"),
    [
        pytest.param(
            ThresholdConfig({"mem.available": "1Mi"}),
            "evictionHard",
            "unsupported eviction signal mem.available",
            id="no-signal",
        ),
        pytest.param(
            ThresholdConfig({"memory.available": "-1Mi"}),
            "evictionHard",
            "eviction threshold memory.available must be positive: -1Mi",
            id="a-negative-quantity",
        ),
        pytest.param(
            ThresholdConfig({"memory.available": "0"}),
            "evictionHard",
            "eviction threshold memory.available must be positive: 0",
            id="nothing-as-a-quantity",
        ),
        pytest.param(ThresholdConfig({"memory.available": "1 Mi"}), "evictionHard", FORM, id="no-quantity"),
        pytest.param(
            ThresholdConfig({"memory.available": " 1Mi"}), "evictionHard", FORM, id="a-quantity-with-a-space-before"
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "-1%"}),
            "evictionHard",
            "eviction percentage threshold nodefs.available must be >= 0%: -1%",
            id="less-than-nothing",
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "101%"}),
            "evictionHard",
            "eviction percentage threshold nodefs.available must be <= 100%: 101%",
            id="more-than-everything",
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "a%"}),
            "evictionHard",
            'strconv.ParseFloat: parsing "a": invalid syntax',
            id="no-percentage",
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "1e39%"}),
            "evictionHard",
            'strconv.ParseFloat: parsing "1e39": value out of range',
            id="too-large-for-32-bits",
        ),
        pytest.param(
            ThresholdConfig({"nodefs.available": "NaN%"}),
            "evictionHard",
            'strconv.ParseFloat: parsing "NaN": invalid syntax',
            id="not-a-number-which-the-kubelet-takes",
        ),
        pytest.param(
            ThresholdConfig({}, {"memory.available": "1Mi"}),
            "evictionSoft",
            "grace period must be specified for the soft eviction threshold memory.available",
            id="no-grace-period",
        ),
        pytest.param(
            ThresholdConfig({}, {}, {"memory.available": "-1s"}),
            "evictionSoftGracePeriod",
            "invalid eviction grace period specified: -1s, must be a positive value",
            id="a-negative-grace-period",
        ),
        pytest.param(
            ThresholdConfig({}, {}, {"memory.available": "30"}),
            "evictionSoftGracePeriod",
            'time: missing unit in duration "30"',
            id="a-grace-period-without-a-unit",
        ),
        pytest.param(
            ThresholdConfig({}, {}, {"memory.available": "3 s"}),
            "evictionSoftGracePeriod",
            'time: unknown unit " s" in duration "3 s"',
            id="a-grace-period-with-a-space",
        ),
        pytest.param(
            ThresholdConfig({}, {}, {}, {"memory.available": "-5Mi"}),
            "evictionMinimumReclaim",
            "negative eviction minimum reclaim specified for memory.available",
            id="a-negative-reclaim",
        ),
        pytest.param(
            ThresholdConfig({}, {}, {}, {"nodefs.available": "0%"}),
            "evictionMinimumReclaim",
            "eviction percentage minimum reclaim nodefs.available must be positive: 0%",
            id="a-reclaim-of-no-percent",
        ),
    ],
)
def test_faults(config: ThresholdConfig, key: str, why: str) -> None:
    """In the kubelet's words, with the key."""
    assert [(one.key, one.why) for one in threshold_faults(config)] == [(key, why)]
    with pytest.raises(ThresholdError):
        parse_thresholds(config)


def test_every_fault_is_named() -> None:
    """The kubelet names one of them."""
    config = ThresholdConfig(
        {"a": "1", "memory.available": "x"}, {"pid.available": "5"}, {"b": "1s"}, {"pid.available": "-1"}
    )
    keys = ["evictionHard", "evictionHard", "evictionSoftGracePeriod", "evictionMinimumReclaim", "evictionSoft"]
    assert [one.key for one in threshold_faults(config)] == keys
