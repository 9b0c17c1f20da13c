"""Can a container mount one volume inside another, read-only one? (nested_volumes_test.go)"""

from pathlib import Path
from typing import Any

import pytest

from activities.volumes.contents.nested_mounts import make_nested_mount_points, nested_mount_points
from activities.volumes.plugin.volume_type import VolumeFailed


def pod(*mounts: tuple[str, str], kind: str = "containers") -> dict[str, Any]:
    """Return a pod whose one container mounts volumes at these paths."""
    return {"spec": {kind: [{"name": "c", "volumeMounts": [{"name": n, "mountPath": p} for n, p in mounts]}]}}


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        pytest.param([("vol", "/dir")], [], id="alone"),
        pytest.param([("vol", "/dir"), ("other", "/elsewhere")], [], id="beside"),
        pytest.param([("vol", "/dir"), ("other", "/dir2")], [], id="a-name-that-only-begins-alike"),
        pytest.param([("vol", "/dir"), ("other", "/dir/nested")], ["nested"], id="inside"),
        pytest.param([("other", "/dir/nested/"), ("vol", "/dir/")], ["nested"], id="paths-that-are-not-clean"),
        pytest.param(
            [("vol", "/dir"), ("o", "/dir/nested"), ("p", "/dir/nested/double")], ["nested"], id="inside-of-inside"
        ),
        pytest.param(
            [("vol", "/dir"), ("a", "/dir/nested"), ("b", "/dir/nested-vol"), ("c", "/dir/nested.vol"),
             ("d", "/dir/nested/double"), ("e", "/dir/nested2")],
            ["nested", "nested-vol", "nested.vol", "nested2"],
            id="names-that-sort-between",
        ),
        pytest.param(
            [("vol", "/dir"), ("vol", "/dir/vol"), ("o", "/dir/vol/x")], ["vol", "x"], id="itself-inside-itself"
        ),
        pytest.param([("vol", "/"), ("other", "/x")], ["x"], id="at-the-root"),
    ],
)  # fmt: skip
def test_mount_points(mounts: list[tuple[str, str]], expected: list[str]) -> None:
    """Of nested ones the outermost."""
    assert list(nested_mount_points("vol", pod(*mounts))) == expected


@pytest.mark.parametrize("kind", ["initContainers", "containers", "ephemeralContainers"])
def test_they_are_made_once(tmp_path: Path, kind: str) -> None:
    """For containers of any kind."""
    for _ in range(2):
        make_nested_mount_points(tmp_path, "vol", pod(("vol", "/dir"), ("o", "/dir/a/b"), kind=kind))
    assert (tmp_path / "a/b").is_dir()


def test_a_path_that_leads_out_of_the_container_is_refused(tmp_path: Path) -> None:
    """Nothing is created outside of the volume."""
    with pytest.raises(VolumeFailed, match="invalid container mount point"):
        make_nested_mount_points(tmp_path / "v", "vol", pod(("vol", "../dir"), ("o", "../dir/x")))
    assert list(tmp_path.iterdir()) == []
