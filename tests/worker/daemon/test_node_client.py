"""Is the identity of a process its own, also after a reboot?"""

from pathlib import Path

import pytest

from worker.daemon import node_client
from worker.daemon.node_client import identity


def test_a_reboot_gives_another_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can start at the same clock tick after each boot, and would not take over its own attempts."""
    before = identity("worker", "n1")
    assert before == identity("worker", "n1")
    assert before.startswith("worker/n1/")
    other = tmp_path / "boot_id"
    other.write_text("00000000-1111-2222-3333-444444444444\n")
    monkeypatch.setattr(node_client, "BOOT_ID", other)
    after = identity("worker", "n1")
    assert after.rpartition("/")[2].startswith("00000000-")
    assert after != before
