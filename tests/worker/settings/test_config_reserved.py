"""Do reservations leave less for pods, and are their limits reported?"""

import re
from pathlib import Path

import pytest

from activities.machine.node_capacity import cpu_capacity, memory_capacity
from proto.temporal.eviction.thresholds import EvictionPolicy
from proto.temporal.resources import Allocatable
from tests.worker.settings.test_config import load
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.reserved import NOTHING_RESERVED, Reserved, allocatable, allocatable_resources

GI = 1024**3


def test_both_reservations_add_up(tmp_path: Path) -> None:
    """Cpu, memory, ephemeral storage and process ids of each."""
    config = load(
        tmp_path,
        "kubeReserved: {cpu: 100m, memory: 1Gi, pid: '100'}\nsystemReserved: {cpu: '0.5', ephemeral-storage: 1Gi}",
    )
    assert config.reserved == Reserved(600, GI, GI, pids=100)
    assert config.warnings == ()


def test_nothing_is_reserved_by_default(tmp_path: Path) -> None:
    """And there is no warning."""
    config = load(tmp_path, "")
    assert (config.reserved, config.warnings) == (NOTHING_RESERVED, ())


def test_what_the_machine_has_may_be_reserved(tmp_path: Path) -> None:
    """All of it, but for what the thresholds keep; process ids are not compared, and no disk that is not limited."""
    whole = f"kubeReserved: {{cpu: {cpu_capacity()}m, memory: '{memory_capacity()}', pid: 100G}}\nevictionHard: {{}}\n"
    assert load(tmp_path, whole + "mergeDefaultEvictionSettings: false").reserved.cpu_milli == cpu_capacity()
    unlimited = "systemReserved: {ephemeral-storage: 100P}\nlocalStorageCapacityIsolation: false"
    assert load(tmp_path, unlimited).reserved.ephemeral_storage_bytes == 10**17


def test_what_is_left() -> None:
    """The machine less what is kept back, and never less than nothing."""
    assert allocatable(NOTHING_RESERVED) == Allocatable(cpu_capacity(), memory_capacity())
    assert allocatable(Reserved(100, GI)) == Allocatable(cpu_capacity() - 100, memory_capacity() - GI)
    assert allocatable(Reserved(10**9, 10**18)) == Allocatable(0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "kubeReserved: {cpu: much}",
            'kubeReserved: failed to parse quantity "much" for "cpu" resource: quantities must match',
            id="no-quantity",
        ),
        pytest.param(
            "systemReserved: {memory: -1Gi}",
            'systemReserved: resource quantity for "memory" cannot be negative: -1Gi',
            id="negative",
        ),
        pytest.param("systemReserved: {gpu: '1'}", 'systemReserved: cannot reserve "gpu" resource', id="unknown"),
        pytest.param("kubeReserved: {hugepages-2Mi: 4Mi}", 'cannot reserve "hugepages-2Mi" resource', id="huge-pages"),
        pytest.param(
            "kubeReserved: {cpu: 60k}\nsystemReserved: {cpu: 40k}",
            'Resource "cpu" has a reservation of 100k but capacity of ',
            id="more-processors-than-there-are",
        ),
        pytest.param(
            "kubeReserved: {memory: 1Pi}\nevictionHard: {memory.available: 2Pi}",
            'invalid Node Allocatable configuration. Resource "memory" has a reservation of 3Pi but capacity of ',
            id="thresholds-count",
        ),
        pytest.param(
            "systemReserved: {ephemeral-storage: 100P}",
            'Resource "ephemeral-storage" has a reservation of ',
            id="more-than-the-disk",
        ),
    ],
)
def test_what_is_no_amount_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the key."""
    with pytest.raises(ConfigurationRefused, match=re.escape(message)):
        load(tmp_path, text)


def test_what_a_container_without_a_limit_may_use_is_what_is_left(tmp_path: Path) -> None:
    """By resource name; a folder that does not exist yet counts as its parent."""
    whole = allocatable_resources(NOTHING_RESERVED, EvictionPolicy(), tmp_path)
    left = allocatable_resources(Reserved(100, GI, GI), EvictionPolicy(), tmp_path / "kubelet" / "pods")
    assert set(left) == {"cpu", "memory", "ephemeral-storage"}
    assert whole["cpu"].milli - left["cpu"].milli == 100
    assert all(whole[name].value - left[name].value == GI for name in ("memory", "ephemeral-storage"))
