"""Does the runtime get a container's mounts as from the kubelet (pkg/kubelet/kubelet_pods_test.go TestMakeMounts …)?"""

from typing import Any

import pytest

from activities.cri_config.volume_mounts import UnmountableVolume, volume_devices, volume_mounts
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.mounted import MountedVolume

DISK = MountedVolume("disk", "/mnt/disk")
ABLE = MountedVolume("disk", "/mnt/disk", recursive_read_only=True)
FIXED = MountedVolume("disk", "/mnt/disk", read_only=True)
RELABELED = MountedVolume("disk", "/mnt/disk", selinux_relabel=True)
RECURSIVE: dict[str, Any] = {"readOnly": True, "recursiveReadOnly": "Enabled"}
PRIVATE = cri.MountPropagation.PROPAGATION_PRIVATE
RESOLVE = "failed to resolve recursive read-only mode"


def mounting(**fields: Any) -> dict[str, Any]:
    """Write a container with one mount."""
    return {"name": "web", "volumeMounts": [{"name": "disk", "mountPath": "/etc/data", **fields}]}


@pytest.mark.parametrize(
    ("fields", "volume", "expected"),
    [
        pytest.param({}, DISK, {}, id="plain"),
        pytest.param({"readOnly": True}, DISK, {"readonly": True}, id="read-only"),
        pytest.param({}, FIXED, {"readonly": True}, id="of-a-read-only-volume"),
        pytest.param(
            {"mountPath": "data"}, DISK, {"container_path": "/data"}, id="a-relative-path-counts-from-the-root"
        ),
        pytest.param({"mountPropagation": "None"}, DISK, {}, id="propagation-none-is-private"),
        pytest.param(
            {"mountPropagation": "HostToContainer"},
            DISK,
            {"propagation": cri.MountPropagation.PROPAGATION_HOST_TO_CONTAINER},
            id="propagation-inward",
        ),
        pytest.param(
            {"mountPropagation": "Bidirectional"},
            DISK,
            {"propagation": cri.MountPropagation.PROPAGATION_BIDIRECTIONAL},
            id="propagation-both-ways",
        ),
        pytest.param(RECURSIVE, ABLE, {"readonly": True, "recursive_read_only": True}, id="recursive"),
        pytest.param(
            RECURSIVE | {"recursiveReadOnly": "IfPossible"},
            ABLE,
            {"readonly": True, "recursive_read_only": True},
            id="if-possible-and-it-is",
        ),
        pytest.param(
            RECURSIVE | {"recursiveReadOnly": "IfPossible"}, DISK, {"readonly": True}, id="if-possible-and-it-is-not"
        ),
        pytest.param(
            {"readOnly": True, "recursiveReadOnly": "Disabled"}, ABLE, {"readonly": True}, id="recursion-disabled"
        ),
        pytest.param({}, RELABELED, {"selinux_relabel": True}, id="relabeled"),
    ],
)
def test_mounts(fields: dict[str, Any], volume: MountedVolume, expected: dict[str, Any]) -> None:
    """One mount of a volume, private unless it says otherwise."""
    base: dict[str, Any] = {"container_path": "/etc/data", "host_path": "/mnt/disk", "propagation": PRIVATE}
    assert volume_mounts(mounting(**fields), [volume]) == [cri.Mount(**(base | expected))]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"name": "tape"}, 'cannot find volume "tape" to mount into container "web"', id="unknown-volume"),
        pytest.param(
            RECURSIVE,
            f'{RESOLVE}: volume "disk" requested recursive read-only mode, but it is not supported by the runtime',
            id="recursive-not-supported",
        ),
        pytest.param(
            {"recursiveReadOnly": "Enabled"},
            f'{RESOLVE}: volume "disk" requested recursive read-only mode, but it is not read-only',
            id="recursive-and-writable",
        ),
        pytest.param(
            RECURSIVE | {"mountPropagation": "Bidirectional"},
            f'{RESOLVE}: volume "disk" requested recursive read-only mode, but it is not compatible with propagation'
            ' "Bidirectional"',
            id="recursive-and-propagated",
        ),
        pytest.param({"mountPropagation": "x"}, 'invalid MountPropagation mode: "x"', id="unknown-propagation"),
    ],
)
def test_mounts_that_cannot_be(fields: dict[str, Any], message: str) -> None:
    """The kubelet's words."""
    with pytest.raises(UnmountableVolume) as refused:
        volume_mounts(mounting(**fields), [DISK])
    assert str(refused.value) == message


def test_paths_below_a_volume() -> None:
    """A mount of a part of the volume shows that part."""
    container = {"name": "web", "volumeMounts": [{"name": "disk", "mountPath": f"/{name}"} for name in "ab"]}
    assert [one.host_path for one in volume_mounts(container, [DISK], {1: "/mnt/part"})] == ["/mnt/disk", "/mnt/part"]


BLOCK = MountedVolume("disk", "/dev/loop0", device=True)


@pytest.mark.parametrize(
    ("volume", "permissions"),
    [
        pytest.param(BLOCK, "mrw", id="writable"),
        pytest.param(MountedVolume("disk", "/dev/loop0", device=True, read_only=True), "r", id="read-only"),
    ],
)
def test_devices(volume: MountedVolume, permissions: str) -> None:
    """A block volume is a device of the container (TestMakeBlockVolumes)."""
    container = {"name": "web", "volumeDevices": [{"name": "disk", "devicePath": "/dev/xvda"}]}
    expected = cri.Device(container_path="/dev/xvda", host_path="/dev/loop0", permissions=permissions)
    assert volume_devices(container, [volume]) == [expected]
    assert volume_mounts(container, [volume]) == []


@pytest.mark.parametrize(
    ("device", "message"),
    [
        pytest.param(
            {"name": "disk", "devicePath": "dev/x"},
            "error DevicePath `dev/x` must be an absolute path",
            id="a-relative-path",
        ),
        pytest.param(
            {"name": "tape", "devicePath": "/dev/x"},
            'cannot find volume "tape" to pass into container "web"',
            id="unknown-volume",
        ),
    ],
)
def test_devices_that_cannot_be(device: dict[str, str], message: str) -> None:
    """The kubelet's words."""
    with pytest.raises(UnmountableVolume) as refused:
        volume_devices({"name": "web", "volumeDevices": [device]}, [BLOCK])
    assert str(refused.value) == message
