"""Does tempolet give the devices that the kubelet's own code gives?"""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cluster.decisions.devices.comparison import ERRORS, compare
from workflows.decide.devices import allocation, checkpoint, hints
from workflows.decide.devices.affinity import ByAffinity

SOME, MANY = 3000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each kind of decision is among them."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    reached = {one for one in ERRORS if one not in {"changed request", "unregistered"}}
    assert set(tally.deeds) == {"admit", "containers with devices", "drop", "gone", "hints", "list", *reached}


@pytest.mark.stress
def test_many_cases_are_alike(kube_binaries: Path) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY)
    assert not tally.different, str(tally)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        pytest.param(allocation, "by_affinity", lambda _, free, __: ByAffinity(without=free), id="no-affinity"),
        pytest.param(hints, "_inside", lambda counts, _: sum(counts.values()), id="devices-near-to-every-node"),
        pytest.param(checkpoint, "_NIL", "nil", id="a-dump-in-other-words"),
    ],
)
def test_a_wrong_rule_is_found(
    kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any
) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(module, name, wrong)
    try:
        tally = compare(kube_binaries, 0, 200)
    except checkpoint.CheckpointError:
        return
    assert tally.different
