"""Does tempolet decide about thresholds, evictions and preemptions as the kubelet's own code does?"""

from pathlib import Path

import pytest

from tests.cluster.decisions import comparison
from tests.cluster.decisions.cases import case
from tests.cluster.decisions.running import compare
from workflows.decide.eviction import ranking

SOME, MANY = 3000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each kind of decision is among them."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    assert set(tally.deeds) == {
        "configurations refused",
        "configurations taken",
        "evictions for a limit",
        "evictions for the node",
        "pods without a preemption",
        "preemptions",
        "rankings for ephemeral-storage",
        "rankings for inodes",
        "rankings for memory",
        "rankings for pids",
        "rounds",
        "rounds with reclaiming",
    }


@pytest.mark.stress
def test_many_cases_are_alike(kube_binaries: Path) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY)
    assert not tally.different, str(tally)


def test_a_wrong_rule_is_found(kube_binaries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inodes without the kubelet's odd request of bytes are ranked differently in some case."""
    monkeypatch.setattr(ranking, "STORAGE", "inodes")
    tally = compare(kube_binaries, 0, 500)
    assert any("order" in words for words in tally.different.values())


def test_a_seed_is_one_case() -> None:
    """So that a difference can be shown again."""
    assert case(7) == case(7)
    assert {case(seed)["kind"] for seed in range(50)} == set(comparison.COMPARISONS)
