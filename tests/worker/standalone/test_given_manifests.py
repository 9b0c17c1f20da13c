"""Which manifests does `tempolet up FILE…` put into the folder, and which does it refuse?"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.synced_files import watch_syncs
from worker.standalone.settings import Settings
from worker.standalone.up import UpFailed, place_manifests

POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: busybox}]}
"""


@pytest.fixture
def node(tmp_path: Path) -> Settings:
    """Return a node that has its folders and nothing else."""
    settings = Settings(state_dir=tmp_path / "state", run_dir=tmp_path / "run", hostname_override="n1")
    settings.manifests.mkdir(parents=True)
    settings.run_dir.mkdir()
    return settings


def absent(_: Path) -> None:
    """Make nothing."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda path: path.write_text("Apache License"), "cannot be used", id="no-manifest-at-all"),
        pytest.param(lambda path: path.write_bytes(POD.replace(b"image", b"imag")), "imag", id="a-field-nobody-knows"),
        pytest.param(Path.mkdir, "it is no file", id="a-folder"),
        pytest.param(os.mkfifo, "it is no file", id="a-fifo-that-nobody-writes"),
        pytest.param(absent, "No such file", id="nothing"),
    ],
)
def test_what_would_be_refused_is_not_put_there(
    node: Settings, tmp_path: Path, make: Callable[[Path], object], message: str
) -> None:
    """Nor is the valid one given with it: the folder stays as it was, for every later `up`."""
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.yaml"
    make(bad)
    good.write_bytes(POD)
    with pytest.raises(UpFailed, match=message):
        place_manifests(node, [good, bad])
    assert list(node.manifests.iterdir()) == []


def test_a_good_manifest_is_put_there_once(node: Settings, tmp_path: Path) -> None:
    """A second time it is there already, and counts as unchanged."""
    good = tmp_path / "good.yaml"
    good.write_bytes(POD)
    for _ in range(2):
        (placed,) = place_manifests(node, [good])
        assert placed.path.read_bytes() == POD


def test_a_manifest_is_on_disk_before_its_pod_runs(
    node: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss would leave an empty file, and no pod."""
    good = tmp_path / "good.yaml"
    good.write_bytes(POD)
    synced = watch_syncs(monkeypatch)
    place_manifests(node, [good])
    assert synced == [".good.yaml", "manifests"]
