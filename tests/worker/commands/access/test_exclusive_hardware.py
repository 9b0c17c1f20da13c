"""Does `explain` say what a pod has to itself, without the containers that are over, though a state file is lost?"""

from collections.abc import Collection
from pathlib import Path

import pytest

from proto.node_devices import write_unanswered_devices
from proto.temporal.hardware.ledger import ContainerAssignment, GivenDevices, PodAssignment
from worker.commands.access.exclusive_hardware import STATE_FILES, exclusive_hardware, has_hardware

GIVEN = PodAssignment(
    "default",
    "web",
    {one: ContainerAssignment("1", devices=(GivenDevices("x.test/gpu", (f"gpu-{one}",)),)) for one in ("a", "ab")},
    (
        "container a has CPU 1 to itself",
        "container ab has CPU 1 to itself",
        "container a was aligned to NUMA node 0",
    ),
)
ILL = "not healthy, or its device plugin is not connected"


@pytest.mark.parametrize(
    ("over", "said"),
    [
        pytest.param(
            (), [*GIVEN.why, *(f"container {one}: x.test/gpu gpu-{one}: {ILL}" for one in ("a", "ab"))], id="none"
        ),
        pytest.param(
            ("a",),
            ["container ab has CPU 1 to itself", f"container ab: x.test/gpu gpu-ab: {ILL}"],
            id="an-init-container",
        ),
        pytest.param(("a", "ab"), [], id="all"),
    ],
)
def test_containers_that_are_over_have_nothing(tmp_path: Path, over: Collection[str], said: list[str]) -> None:
    """Neither CPUs nor devices, healthy or not."""
    assert list(exclusive_hardware(tmp_path, GIVEN, over)) == said


@pytest.mark.parametrize("name", STATE_FILES)
def test_who_is_asked_for(tmp_path: Path, name: str) -> None:
    """A pod that a state file names."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"u-1": {}}')
    assert has_hardware(tmp_path, "u-1")
    assert not has_hardware(tmp_path, "u-2")


def test_whose_devices_only_the_runtime_and_the_ledger_know(tmp_path: Path) -> None:
    """Its checkpoint is lost, and it has them all the same."""
    assert not has_hardware(tmp_path, "u-1")
    write_unanswered_devices(tmp_path, {"u-1": {"main": {"x.test/gpu": {-1: ("gpu-0",)}}}})
    assert has_hardware(tmp_path, "u-1")
