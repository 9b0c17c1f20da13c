"""Do reservations leave less for pods, and are their limits reported?"""

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
    """Cpu, memory and ephemeral storage of each; reserved process ids are ignored."""
    config = load(
        tmp_path,
        "kubeReserved: {cpu: 100m, memory: 1Gi, pid: '100'}\nsystemReserved: {cpu: '0.5', ephemeral-storage: 1Gi}",
    )
    assert config.reserved == Reserved(600, GI, GI)
    said = "it limits resizes and what pods see as allocatable"
    assert [one.split(":")[0] for one in config.warnings if said in one] == ["kubeReserved", "systemReserved"]


def test_nothing_is_reserved_by_default(tmp_path: Path) -> None:
    """And there is no warning."""
    config = load(tmp_path, "")
    assert (config.reserved, config.warnings) == (NOTHING_RESERVED, ())


def test_what_is_left() -> None:
    """The machine less what is kept back, and never less than nothing."""
    assert allocatable(NOTHING_RESERVED) == Allocatable(cpu_capacity(), memory_capacity())
    assert allocatable(Reserved(100, GI)) == Allocatable(cpu_capacity() - 100, memory_capacity() - GI)
    assert allocatable(Reserved(10**9, 10**18)) == Allocatable(0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("kubeReserved: {cpu: much}", "kubeReserved: cpu: 'much': quantities must match", id="no-quantity"),
        pytest.param(
            "systemReserved: {memory: -1Gi}", "systemReserved: memory: -1Gi, but it must not be", id="negative"
        ),
        pytest.param("systemReserved: {gpu: '1'}", "systemReserved: 'gpu', but it is cpu, memory,", id="unknown"),
    ],
)
def test_what_is_no_amount_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the key."""
    with pytest.raises(ConfigurationRefused, match=message):
        load(tmp_path, text)


def test_what_a_container_without_a_limit_may_use_is_what_is_left(tmp_path: Path) -> None:
    """By resource name; a folder that does not exist yet counts as its parent."""
    whole = allocatable_resources(NOTHING_RESERVED, EvictionPolicy(), tmp_path)
    left = allocatable_resources(Reserved(100, GI, GI), EvictionPolicy(), tmp_path / "kubelet" / "pods")
    assert set(left) == {"cpu", "memory", "ephemeral-storage"}
    assert whole["cpu"].milli - left["cpu"].milli == 100
    assert all(whole[name].value - left[name].value == GI for name in ("memory", "ephemeral-storage"))
