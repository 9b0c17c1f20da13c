"""Does `explain` say which of a pod's devices are not healthy?"""

from pathlib import Path

import pytest

from proto.node_devices import HealthyDevices, write_healthy_devices
from proto.temporal.hardware.ledger import ContainerAssignment, GivenDevices
from worker.commands.access.unhealthy_devices import NAMED, unhealthy_devices

GPU = "example.com/gpu"
MANY = tuple(f"gpu-{number:02}" for number in range(NAMED + 2))
WHY = "not healthy, or its device plugin is not connected"


@pytest.mark.parametrize(
    ("healthy", "ids", "said"),
    [
        pytest.param({GPU: {"gpu-00": ()}}, ("gpu-00",), [], id="healthy"),
        pytest.param(
            {GPU: {"gpu-01": ()}}, ("gpu-00", "gpu-01"), [f"container c: {GPU} gpu-00: {WHY}"], id="one-is-not"
        ),
        pytest.param({}, ("gpu-00",), [f"container c: {GPU} gpu-00: {WHY}"], id="no-plugin"),
        pytest.param({}, MANY, [f"container c: {GPU} {', '.join(MANY[:NAMED])} and 2 more: {WHY}"], id="many"),
    ],
)
def test_devices_that_are_not_healthy(
    tmp_path: Path, healthy: HealthyDevices, ids: tuple[str, ...], said: list[str]
) -> None:
    """Each container and resource once; few are named."""
    write_healthy_devices(tmp_path, healthy)
    given = ContainerAssignment(devices=tuple(GivenDevices(GPU, (one,)) for one in ids))
    assert list(unhealthy_devices(tmp_path, {"c": given, "d": ContainerAssignment(cpus="1")})) == said
