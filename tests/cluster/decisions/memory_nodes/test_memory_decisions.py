"""Does tempolet give containers the memory of the NUMA nodes that the kubelet's own code gives?"""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cluster.decisions.memory_nodes.comparison import compare
from workflows.decide.memory_nodes import hints, static_policy

SOME, MANY = 5_000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each kind of decision is among them."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    assert set(tally.deeds) == {
        "allocate",
        "allocate refused",
        "hints",
        "podHints",
        "release",
        "reservations",
        "reservations refused",
        "starts refused",
        "state files read",
        "state files refused",
        "state files written",
    }


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["", "memory-policy"])
def test_many_cases_are_alike(kube_binaries: Path, kind: str) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY, kind)
    assert not tally.different, str(tally)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        pytest.param(hints, "is_of_other_group", lambda *_: False, id="a-node-may-be-of-two-groups"),
        pytest.param(static_policy, "_reusing", lambda known, *_: known, id="nothing-is-reused"),
        pytest.param(static_policy, "_less_for_inits", lambda known, *_: known, id="blocks-of-inits-stay"),
        pytest.param(static_policy, "_better", lambda found, *_: found[0], id="the-first-hint-is-the-best"),
    ],
)
def test_a_wrong_rule_is_found(
    kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any
) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(module, name, wrong)
    assert compare(kube_binaries, 0, 1000, "memory-policy").different
