"""Is logind's configuration raised by one file, and removed only if it is ours?"""

from datetime import timedelta
from pathlib import Path

from worker.host.shutdown.drop_in import NAME, remove_drop_in, write_drop_in

KUBELETS = "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=30\n"


def test_ours_is_written_and_removed(tmp_path: Path) -> None:
    """It has the kubelet's name, so it takes the place of the kubelet's."""
    folder = tmp_path / "logind.conf.d"
    folder.mkdir()
    (folder / NAME).write_text(KUBELETS)
    write_drop_in(timedelta(seconds=90.2), folder)
    assert (folder / NAME).read_text().splitlines()[1:] == ["[Login]", "InhibitDelayMaxSec=91"]
    assert (folder / NAME).stat().st_mode & 0o777 == 0o644
    assert remove_drop_in(folder)
    assert list(folder.iterdir()) == []


def test_the_kubelets_stays(tmp_path: Path) -> None:
    """Also if there is none, and no folder."""
    assert not remove_drop_in(tmp_path / "none")
    (tmp_path / NAME).write_text(KUBELETS)
    assert not remove_drop_in(tmp_path)
    assert (tmp_path / NAME).read_text() == KUBELETS
