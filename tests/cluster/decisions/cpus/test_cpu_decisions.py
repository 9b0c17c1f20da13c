"""Does tempolet take the CPUs that the kubelet's own code takes?"""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cluster.decisions.cpus.comparison import compare
from workflows.decide.cpus import accumulator, distributed, static_policy

SOME, MANY = 10_000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each kind of decision is among them."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    assert set(tally.deeds) == {
        "allocate",
        "allocate refused",
        "distributed",
        "distributed refused",
        "hints",
        "packed",
        "packed refused",
        "podHints",
        "release",
        "starts refused",
        "state files",
    }


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["", "cpus", "cpu-policy"])
def test_many_cases_are_alike(kube_binaries: Path, kind: str) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY, kind)
    assert not tally.different, str(tally)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        pytest.param(accumulator, "_sorted", lambda parts, _: sorted(parts), id="parts-by-number-alone"),
        pytest.param(distributed, "_deviation", lambda _: 0.0, id="any-choice-is-balanced"),
        pytest.param(static_policy, "_reusing", lambda known, *_: known, id="nothing-is-reused"),
    ],
)
def test_a_wrong_rule_is_found(
    kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any
) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(module, name, wrong)
    assert compare(kube_binaries, 0, 2000).different
