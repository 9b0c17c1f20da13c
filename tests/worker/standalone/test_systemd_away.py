"""Does `up` refuse a systemd that it cannot reach, before it has written anything?"""

import os
from pathlib import Path

import pytest

from worker.standalone import up
from worker.standalone.settings import Settings


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as `up` does")
def test_a_systemd_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is PID 1, and neither the bus nor its own socket answers: that is said, and what to do."""
    monkeypatch.setattr(up, "systemd_error", lambda: "systemd at /run/x: no such file")
    settings = Settings(run_dir=tmp_path / "run", state_dir=tmp_path / "state", systemd=True)
    with pytest.raises(
        up.UpFailed, match=r"^nothing was changed: systemd at /run/x: no such file; .*give --no-systemd$"
    ):
        up.up(settings)
    assert list(tmp_path.iterdir()) == []
