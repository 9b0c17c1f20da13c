"""Does the runtime get an image's mount as from the kubelet, and is it checked first for subPath support?"""

from typing import Any

import pytest

from activities.cri_config.volume_mounts import volume_mounts
from activities.volumes.subpaths import mount_sub_paths
from activities.volumes.types.image import SubPathIgnored, check_image_sub_paths, ignores_sub_paths
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.mounted import MountedVolume

TOOL = MountedVolume("tool", read_only=True, image="tool:1", image_ref="sha256:1")
SPEC = cri.ImageSpec(image="sha256:1", user_specified_image="tool:1")


def mounting(**fields: Any) -> dict[str, Any]:
    """Return a container that mounts it."""
    return {"name": "web", "volumeMounts": [{"name": "tool", "mountPath": "/tool", **fields}]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({}, "", id="all-of-it"),
        pytest.param({"subPath": "bin"}, "bin", id="a-path"),
        pytest.param({"subPathExpr": "$(NAME)/x"}, "web-0/x", id="an-expression"),
    ],
)
def test_mounts(tmp_path: Any, fields: dict[str, Any], path: str) -> None:
    """Read-only, by reference, with the path and without a host path."""
    container = mounting(**fields)
    paths = mount_sub_paths(tmp_path, container, (TOOL,), {"NAME": "web-0"})
    [mount] = volume_mounts(container, (TOOL,), paths)
    assert mount == cri.Mount(container_path="/tool", readonly=True, image=SPEC, image_sub_path=path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("runtime", "version", "ignores"),
    [
        pytest.param("containerd", "2.1.9+unknown", True, id="containerd-2.1"),
        pytest.param("containerd", "v2.2.0", False, id="containerd-2.2"),
        pytest.param("containerd", "10.0.0", False, id="containerd-10"),
        pytest.param("containerd", "1.7.27", True, id="containerd-1"),
        pytest.param("containerd", "main", False, id="an-unknown-version-is-believed"),
        pytest.param("cri-o", "1.33.0", False, id="another-runtime-is-believed"),
    ],
)
def test_who_takes_no_notice_of_a_path(runtime: str, version: str, ignores: bool) -> None:
    """Only versions that are known to ignore it."""
    assert ignores_sub_paths(runtime, version) is ignores


class OldRuntime:
    """A containerd that shows only whole images."""

    asked = 0

    async def version(self) -> cri.VersionResponse:
        """Return its version."""
        self.asked += 1
        return cri.VersionResponse(runtime_name="containerd", runtime_version="2.1.9")


async def test_a_path_that_would_be_ignored_is_refused() -> None:
    """Without a subPath, the runtime is not asked."""
    runtime: Any = OldRuntime()
    await check_image_sub_paths(runtime, mounting(), (TOOL,))
    await check_image_sub_paths(runtime, mounting(subPath="x"), (MountedVolume("tool", "/data"),))
    assert runtime.asked == 0
    with pytest.raises(SubPathIgnored, match=r"containerd 2\.1\.9 ignores the subPath of an image"):
        await check_image_sub_paths(runtime, mounting(subPath="x"), (TOOL,))
