"""Does the kernel's own ext4 count a folder by its project? And without quotas, is that said?"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.files import mounts
from activities.files.disk_use import count_files
from activities.volumes.quotas import kernel, quotas
from activities.volumes.quotas.project_files import FIRST
from activities.volumes.quotas.quotas import assign_quota, clear_quota, quota_use

MIB = 1024**2
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


@pytest.fixture
def ext4(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount one, with project quotas unless `param` says otherwise; skip where the kernel has none."""
    features, options = getattr(request, "param", ("quota,project", "loop,prjquota"))
    image, point = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    point.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-O", features, image], check=True)
    mounted = subprocess.run(["mount", "-o", options, image, point], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        assert features.startswith("quota"), mounted.stderr
        pytest.skip(
            "this kernel mounts no ext4 with project quotas: it was built without CONFIG_QUOTA and CONFIG_QFMT_V2"
        )
    try:
        yield point
    finally:
        mounts.unmount(point)


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the files of projects here."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(quotas, "FILES", folder)
    return folder


def volume(ext4: Path, name: str = "data") -> Path:
    """Make a volume's folder."""
    folder = ext4 / "pods/u/volumes/kubernetes.io~empty-dir" / name
    folder.mkdir(parents=True)
    return folder


@needs_root
def test_a_volume_is_counted_by_the_kernel(ext4: Path, etc: Path) -> None:
    """Also what is unlinked and still open, which walking the folder does not see; and it is given back."""
    folder = volume(ext4)
    (folder / "early").write_bytes(b"x" * MIB)
    assign_quota(folder, limited=True)
    (folder / "deep").mkdir()
    (folder / "deep/late").write_bytes(b"x" * 2 * MIB)
    os.sync()
    assert quota_use(folder) == count_files(folder, 60)
    with (folder / "open").open("wb") as file:
        file.write(b"x" * 4 * MIB)
        file.flush()
        os.fsync(file.fileno())
        (folder / "open").unlink()
        use = quota_use(folder)
        assert use is not None
        assert use.used_bytes >= count_files(folder, 60).used_bytes + 4 * MIB
    assign_quota(folder, limited=True)
    assert (etc / "projects").read_text() == f"{FIRST}:{folder}\n"
    other = volume(ext4, "other")
    assign_quota(other, limited=False)
    assert (etc / "projid").read_text() == f"volume{FIRST}:{FIRST}\nvolume{FIRST + 1}:{FIRST + 1}\n"
    clear_quota(folder)
    assert quota_use(folder) is None
    assert (etc / "projects").read_text() == f"{FIRST + 1}:{other}\n"


@needs_root
def test_its_limits_are_the_kubelets(ext4: Path, etc: Path) -> None:
    """`repquota` and `xfs_quota` show them; none refuses a write."""
    folder = volume(ext4)
    opened = os.open(folder, os.O_RDONLY)
    try:
        for limited, blocks in ((True, (2**58 - 1) // 512), (False, 0)):
            assign_quota(folder, limited=limited)
            quota = bytearray(112)
            kernel._quotactl(opened, kernel._GET, FIRST, quota)
            _, _, _, project, hard, soft, *_ = kernel._QUOTA.unpack_from(quota)
            assert (project, hard, soft) == (FIRST, blocks, blocks)
            (folder / "file").write_bytes(b"x" * MIB)
    finally:
        os.close(opened)
    assert etc.exists()


@needs_root
@pytest.mark.parametrize("ext4", [("^quota,^project", "loop")], indirect=True)
def test_an_ext4_without_quotas_says_so(ext4: Path, etc: Path) -> None:
    """Nothing is written, and files are counted."""
    folder = volume(ext4)
    assign_quota(folder, limited=True)
    opened = os.open(folder, os.O_RDONLY)
    try:
        assert not kernel.accounts(opened)
        assert kernel.project_of(opened) == 0
        with pytest.raises(OSError, match="quotactl_fd"):
            kernel.use_of(opened, FIRST)
    finally:
        os.close(opened)
    assert quota_use(folder) is None
    assert not list(etc.iterdir())


def test_other_file_systems_have_none() -> None:
    """The kubelet knows XFS and ext4 alone."""
    opened = os.open("/proc", os.O_RDONLY)
    try:
        assert not kernel.accounts(opened)
    finally:
        os.close(opened)
