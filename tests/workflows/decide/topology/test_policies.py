"""From which NUMA nodes does a container get its resources, and may its pod start?"""

import pytest

from workflows.decide.topology.hints import Hint, Hints
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.options import Options
from workflows.decide.topology.policies import BEST_EFFORT, NONE, RESTRICTED, SINGLE_NODE, Merged, Policy

TWO = NumaNodes((0, 1))
FOUR = NumaNodes(
    (0, 1, 2, 3),
    {
        one: {other: 10 if one == other else 12 if one % 2 == other % 2 else 32 for other in range(4)}
        for one in range(4)
    },
)
"""Nodes 0 and 2 are close to each other, and 1 and 3."""

LEFT, RIGHT, BOTH = Hint((0,), preferred=True), Hint((1,), preferred=True), Hint((0, 1), preferred=False)
PAIR = Hint((0, 1), preferred=True)


def hint(*nodes: int, preferred: bool = True) -> Hint:
    """Make a hint."""
    return Hint(nodes, preferred)


@pytest.mark.parametrize(
    ("cpus", "memory", "merged"),
    [
        pytest.param((LEFT, RIGHT), (LEFT, RIGHT), LEFT, id="the-lower-of-two-nodes-that-both-have-all"),
        pytest.param((LEFT, RIGHT, BOTH), (RIGHT, BOTH), RIGHT, id="the-node-that-both-have"),
        pytest.param((LEFT,), (RIGHT,), hint(0, 1, preferred=False), id="no-node-in-common-means-all"),
        pytest.param((LEFT, BOTH), (RIGHT, BOTH), hint(0, preferred=False), id="one-node-of-a-hint-for-two"),
        pytest.param((PAIR,), (PAIR,), PAIR, id="two-nodes-that-are-the-fewest-possible"),
        pytest.param((PAIR,), (LEFT,), hint(0, preferred=False), id="different-sets-are-not-preferred"),
        pytest.param(None, (RIGHT,), RIGHT, id="who-does-not-care-follows"),
        pytest.param(None, None, PAIR, id="nobody-cares"),
        pytest.param((), (RIGHT,), hint(1, preferred=False), id="a-resource-that-no-node-has"),
        pytest.param((), (), hint(0, 1, preferred=False), id="no-node-has-anything"),
    ],
)
def test_best_effort(cpus: Hints, memory: Hints, merged: Hint) -> None:
    """Admits everything."""
    providers = [{"cpu": cpus}, {"memory": memory}]
    assert Policy(BEST_EFFORT, TWO).merge(providers) == Merged(merged, is_admitted=True)
    assert Policy(RESTRICTED, TWO).merge(providers) == Merged(merged, is_admitted=merged.preferred)


@pytest.mark.parametrize(
    ("cpus", "memory", "merged"),
    [
        pytest.param((LEFT, RIGHT), (RIGHT,), RIGHT, id="one-node"),
        pytest.param((PAIR,), (PAIR,), Hint(None, preferred=False), id="two-nodes-are-refused"),
        pytest.param((hint(0, preferred=False),), (LEFT,), Hint(None, preferred=False), id="not-preferred-is-refused"),
        pytest.param((LEFT,), (RIGHT,), Hint(None, preferred=False), id="different-nodes-are-refused"),
        pytest.param(None, None, Hint(None, preferred=True), id="nobody-cares"),
    ],
)
def test_single_numa_node(cpus: Hints, memory: Hints, merged: Hint) -> None:
    """Admits what fits into one node."""
    answer = Policy(SINGLE_NODE, TWO).merge([{"cpu": cpus}, {"memory": memory}])
    assert answer == Merged(merged, is_admitted=merged.preferred)


def test_one_node_is_any_node() -> None:
    """The single-numa-node policy tells no node on a machine that has only one."""
    answer = Policy(SINGLE_NODE, NumaNodes((0,))).merge([{"cpu": (LEFT,)}])
    assert answer == Merged(Hint(None, preferred=True), is_admitted=True)


def test_none_does_not_look() -> None:
    """Everything is admitted and nothing is aligned."""
    assert Policy(NONE, TWO).merge([{"cpu": ()}]) == Merged(Hint(None, preferred=False), is_admitted=True)


@pytest.mark.parametrize(
    ("policy", "closest", "merged"),
    [
        pytest.param(BEST_EFFORT, False, hint(0, 1), id="lower-nodes"),
        pytest.param(BEST_EFFORT, True, hint(0, 2), id="closer-nodes"),
        pytest.param(RESTRICTED, True, hint(0, 2), id="closer-nodes-restricted"),
        pytest.param(SINGLE_NODE, True, Hint(None, preferred=False), id="single-numa-node-does-not-ask"),
    ],
)
def test_closest(policy: str, closest: bool, merged: Hint) -> None:
    """Of sets of equally many nodes the option takes those that are close to each other."""
    pairs = tuple(hint(one, other) for one in range(4) for other in range(one + 1, 4))
    answer = Policy(policy, FOUR, Options(closest=closest)).merge([{"cpu": pairs}, {"memory": pairs}])
    assert answer.hint == merged


@pytest.mark.parametrize(
    ("cpus", "memory", "nodes"),
    [
        pytest.param((hint(0, 1),), (hint(0, 1, 2, 3), hint(0), hint(0, 1, 2)), (0, 1), id="as-many-as-one-needs"),
        pytest.param((hint(0, 1, 2),), (hint(0), hint(1, 2)), (1, 2), id="fewer-but-as-many-as-possible"),
        pytest.param(None, (hint(0, 1, 2, preferred=False), hint(1, 2, preferred=False)), (1, 2), id="the-fewest"),
    ],
)
def test_what_is_not_preferred(cpus: Hints, memory: Hints, nodes: tuple[int, ...]) -> None:
    """Has as many nodes as the resource needs that needs most, else fewer, else more."""
    assert Policy(BEST_EFFORT, FOUR).merge([{"cpu": cpus}, {"memory": memory}]).hint == Hint(nodes, preferred=False)


def test_eight_nodes_and_three_resources_are_quick() -> None:
    """The kubelet tries 16 million combinations here; these would take minutes."""
    every = tuple(
        Hint(tuple(node for node in range(8) if mask >> node & 1), preferred=mask.bit_count() == 3)
        for mask in range(1, 256)
    )
    machine = NumaNodes(tuple(range(8)))
    answer = Policy(RESTRICTED, machine).merge([{"cpu": every}, {"memory": every, "hugepages-2Mi": every}])
    assert answer == Merged(Hint((0, 1, 2), preferred=True), is_admitted=True)
