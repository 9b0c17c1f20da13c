"""Does tempolet align resources as the kubelet's own code does?"""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cluster.decisions.topology.comparison import compare
from workflows.decide.topology import policies
from workflows.decide.topology.numa_nodes import NumaNodes

SOME, MANY = 10_000, 100_000


def test_some_cases_are_alike(kube_binaries: Path) -> None:
    """And each kind of decision is among them."""
    tally = compare(kube_binaries, 0, SOME)
    assert not tally.different, str(tally)
    assert set(tally.deeds) == {
        "admitted",
        "best-effort not preferred",
        "best-effort preferred",
        "none not preferred",
        "not aligned",
        "not allocated",
        "restricted not preferred",
        "restricted preferred",
        "single-numa-node not preferred",
        "single-numa-node preferred",
        "start refused",
    }


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["topology", "topology-merge"])
def test_many_cases_are_alike(kube_binaries: Path, kind: str) -> None:
    """From other seeds than the ones of every run."""
    tally = compare(kube_binaries, SOME, MANY, kind)
    assert not tally.different, str(tally)


@pytest.mark.parametrize(
    ("where", "name", "wrong"),
    [
        pytest.param(policies, "_most_of_least", lambda _: 1, id="as-few-nodes-as-possible"),
        pytest.param(policies, "_is_of_one_node", lambda _: True, id="any-nodes-are-one"),
        pytest.param(NumaNodes, "closest", NumaNodes.narrowest, id="distances-do-not-count"),
    ],
)
def test_a_wrong_rule_is_found(
    kube_binaries: Path, monkeypatch: pytest.MonkeyPatch, where: ModuleType | type, name: str, wrong: Any
) -> None:
    """The cases are not too simple to tell."""
    monkeypatch.setattr(where, name, wrong)
    assert compare(kube_binaries, 0, 2000).different
