"""Does tempolet decide about thresholds, evictions and preemptions as the kubelet's own code does?"""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cluster.decisions import comparison
from tests.cluster.decisions.cases import RANKED, SIGNALS, case
from tests.cluster.decisions.running import compare
from workflows.decide.eviction import amounts, disks, preemption, pressure, ranking, rounds
from workflows.decide.shutdown import groups

SOME, MANY = 3000, 100_000
EVICTING = {f"evictions for {one}" for one in SIGNALS}
"""Each signal alone ends pods."""


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
        "shutdowns",
        "shutdowns of two kinds of pods",
        *EVICTING,
    }


@pytest.mark.stress
def test_many_cases_are_alike(kube_binaries: Path) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY)
    assert not tally.different, str(tally)


@pytest.mark.stress
@pytest.mark.parametrize(
    ("kind", "deeds"),
    [
        pytest.param("rank", {f"rankings for {one}" for one in RANKED}, id="rankings"),
        pytest.param("signal", EVICTING, id="victims-of-each-signal"),
        pytest.param("preempt", {"preemptions", "pods without a preemption"}, id="preemptions"),
        pytest.param("shutdown", {"shutdowns", "shutdowns of two kinds of pods"}, id="shutdowns"),
    ],
)
def test_many_cases_of_one_kind_are_alike(kube_binaries: Path, kind: str, deeds: set[str]) -> None:
    """As many as of all kinds together."""
    tally = compare(kube_binaries, SOME + MANY, MANY, kind)
    assert not tally.different, str(tally)
    assert set(tally.deeds) == deeds


@pytest.mark.parametrize(
    ("module", "name", "wrong", "kind"),
    [
        pytest.param(amounts, "_single", float, "thresholds", id="percentages-of-64-bits"),
        pytest.param(ranking, "STORAGE", "inodes", "rank", id="inodes-without-the-request-of-bytes"),
        pytest.param(rounds, "AT_ONCE_SECONDS", 2, "rounds", id="two-seconds-for-a-hard-threshold"),
        pytest.param(pressure, "_is_new", lambda *_: True, "rounds", id="acting-twice-on-one-measurement"),
        pytest.param(disks, "_ALL", frozenset({disks.Files.ROOT}), "rounds", id="logs-and-volumes-that-do-not-count"),
        pytest.param(preemption, "_size", lambda _: 0, "preempt", id="the-last-pod-of-those-equally-near"),
        pytest.param(groups, "bisect_right", lambda known, _: len(known), "shutdown", id="the-highest-period-for-all"),
    ],
)
def test_a_wrong_rule_is_found(
    kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any, kind: str
) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(module, name, wrong)
    tally = compare(kube_binaries, 0, 500)
    assert kind in {case(seed)["kind"] for seed in tally.different}


def test_a_seed_is_one_case() -> None:
    """So that a difference can be shown again."""
    assert case(7) == case(7)
    assert {case(seed)["kind"] for seed in range(50)} == set(comparison.COMPARISONS)
