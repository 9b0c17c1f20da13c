"""Are volumeDevices validated as by the API (validation_test.go TestValidateVolumeDevices)?"""

import pytest

from tests.workflows.decide.manifest.judging import validated
from tests.workflows.decide.pods import container


def device(name: str = "data", path: str = "/dev/xvda") -> dict[str, str]:
    """Build a volumeDevice."""
    return {"name": name, "devicePath": path}


EMPTY = {"name": "empty", "emptyDir": {}}
DEVICE = "spec.containers[0].volumeDevices"


@pytest.mark.parametrize(
    ("devices", "mounts", "faults"),
    [
        pytest.param([device()], [], [], id="a-device"),
        pytest.param([device("other")], [], [f'{DEVICE}[0].name: Not found: "other"'], id="of-no-volume"),
        pytest.param(
            [device("empty")],
            [],
            [
                (
                    f'{DEVICE}[0].name: Invalid value: "empty": can only use volume source type of PersistentVolumeClaim or '
                    "Ephemeral for block mode"
                )
            ],
            id="of-a-volume-that-is-no-claim",
        ),
        pytest.param(
            [{}],
            [],
            [
                f"{DEVICE}[0].name: Required value",
                f'{DEVICE}[0].name: Not found: ""',
                f"{DEVICE}[0].devicePath: Required value",
            ],
            id="of-nothing",
        ),
        pytest.param(
            [device(), device(path="/dev/b")],
            [],
            [f'{DEVICE}[1].name: Invalid value: "data": must be unique'],
            id="one-volume-twice",
        ),
        pytest.param(
            [device(path="/dev/../etc")],
            [],
            [f"{DEVICE}[0].devicePath: Invalid value: \"/dev/../etc\": can not contain backsteps ('..')"],
            id="with-backsteps",
        ),
        pytest.param(
            [device()],
            [{"name": "data", "mountPath": "/dev/xvda"}],
            [
                'spec.containers[0].volumeMounts[0].name: Invalid value: "data": must not already exist in volumeDevices',
                (
                    'spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/dev/xvda": must not already exist as a path '
                    "in volumeDevices"
                ),
                f'{DEVICE}[0].name: Invalid value: "data": must not already exist in volumeMounts',
                f'{DEVICE}[0].devicePath: Invalid value: "/dev/xvda": must not already exist as a path in volumeMounts',
            ],
            id="mounted-too",
        ),
    ],
)
def test_devices(devices: list[dict[str, str]], mounts: list[dict[str, str]], faults: list[str]) -> None:
    """The API's own cases."""
    asked = container(volumeDevices=devices, volumeMounts=mounts)
    asked["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, EMPTY]
    assert validated(asked) == tuple(faults)
