"""Are the processes that `tempolet up` starts the last that the kernel's OOM killer takes, where that is allowed?"""

import errno
from pathlib import Path, PosixPath
from typing import Any

import pytest

from worker.standalone.machine import oom_protection, unit_text
from worker.standalone.machine.oom_protection import SCORE, spared_by_the_oom_killer
from worker.standalone.machine.process import Command, Supervised

OWN = Path("/proc/self/oom_score_adj")


class Refusing(PosixPath):
    """A file that answers as the kernel does without CAP_SYS_RESOURCE."""

    def write_text(self, data: str, *_: Any, **__: Any) -> int:
        """Refuse."""
        raise PermissionError(errno.EACCES, "Permission denied", data)


def test_plain_processes_are_started_with_the_score(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a score that every process may give itself; the process that starts them has its own again."""
    before = int(OWN.read_text())
    monkeypatch.setattr(oom_protection, "SCORE", before + 2)
    made = Supervised(tmp_path / "sleep.pid")
    identity = made.start(Command(["/bin/sleep", "60"], tmp_path / "log", {}))
    try:
        assert int(Path(f"/proc/{identity.pid}/oom_score_adj").read_text()) == before + 2
        assert int(OWN.read_text()) == before
    finally:
        made.stop(10)


def test_without_the_right_to_lower_it_it_stays() -> None:
    """And the block runs."""
    own = Refusing("/proc/self/oom_score_adj")
    before, ran = own.read_text(), False
    with spared_by_the_oom_killer(own):
        ran = own.read_text() == before
    assert ran


@pytest.mark.parametrize("unit", [unit_text.CONTAINERD, unit_text.TEMPORAL], ids=["containerd", "temporal"])
def test_a_unit_says_the_same(unit: str) -> None:
    """Shims have containerd's score and one more; those of worker, poller and node are compared with `deploy/systemd/`."""
    assert f"OOMScoreAdjust={SCORE}" in unit.splitlines()
