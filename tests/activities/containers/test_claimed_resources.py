"""Is a device plugin asked for what a claim serves, because the resource has the plugin's name?"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.containers.container_preparation import prepare
from activities.containers.services import ContainerServices
from activities.hardware.services import HardwareRefused
from proto.temporal.activities.requests import StartContainer
from proto.temporal.pod import PodKey
from workflows.decide.volumes.downward import start_slice

GPU = "example.com/gpu"
MAPPED = {
    "resourceClaimName": "made",
    "requestMappings": [{"containerName": "app", "resourceName": GPU, "requestName": "container-0-request-0"}],
}


class Plugins:
    """Refuses every start, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Refuse it."""
        self.asked.append(container)
        raise HardwareRefused("UnexpectedAdmissionError", f"no devices for {pod_uid}")


@pytest.mark.parametrize(
    ("status", "limits"),
    [
        pytest.param({}, {"cpu": "1", GPU: "1"}, id="of-a-plugin"),
        pytest.param({"extendedResourceClaimStatus": MAPPED}, {"cpu": "1"}, id="of-a-claim"),
    ],
)
async def test_what_plugins_are_asked_for_at_a_start(status: dict[str, Any], limits: dict[str, str]) -> None:
    """Not for what the scheduler has made a claim of; a node may have, or may have had, a plugin of that name."""
    app = {"name": "app", "image": "i", "resources": {"limits": {"cpu": "1", GPU: "1"}}}
    metadata = {"namespace": "prod", "name": "web", "uid": "u"}
    pod = {"metadata": metadata, "spec": {"containers": [app]}, "status": status}
    request = StartContainer(PodKey("prod", "web", "u"), "sandbox", 0, "ref", app, start_slice(pod, "app"))
    plugins = Plugins()
    with pytest.raises(ValueError, match="no devices for u"):
        await prepare(cast("ContainerServices", SimpleNamespace(hardware=plugins)), request, 0)
    assert [one["resources"]["limits"] for one in plugins.asked] == [limits]
