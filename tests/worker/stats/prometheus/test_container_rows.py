"""Is counting a pod's open descriptors bounded?"""

import os

import pytest

from worker.stats.prometheus import container_rows
from worker.stats.prometheus.container_rows import processes_of


def test_descriptors_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all processes of a cgroup together."""
    whole = processes_of([os.getpid()])
    assert 3 <= whole.descriptors < container_rows.MOST_DESCRIPTORS
    monkeypatch.setattr(container_rows, "MOST_DESCRIPTORS", 2)
    bounded = processes_of([os.getpid()] * 1000)
    assert (bounded.count, bounded.descriptors) == (1000, 2)
