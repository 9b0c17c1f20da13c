"""Do two sessions have their kubelets one after the other?"""

import fcntl
from pathlib import Path

import pytest

from tests.cluster.peers import kubelet_node
from tests.cluster.peers.kubelet_node import alone


def test_one_kubelet_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock is held as long as the kubelet runs, and free afterwards."""
    lock = tmp_path / "kubelet"
    monkeypatch.setattr(kubelet_node, "LOCK", lock)
    with alone(), lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
