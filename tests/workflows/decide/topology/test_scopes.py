"""For whom are hints merged, and which topology manager does a node refuse to start with?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from workflows.decide.topology.hints import Hint, ProviderHints
from workflows.decide.topology.numa_nodes import NumaNodes
from workflows.decide.topology.options import OptionError, Options, advice, option_faults, parse_options
from workflows.decide.topology.policies import BEST_EFFORT, NONE, RESTRICTED, SINGLE_NODE
from workflows.decide.topology.scopes import (
    CONTAINER,
    POD,
    TopologyAffinityError,
    TopologyManagerError,
    topology_manager,
)

TWO = NumaNodes((0, 1))
NOT_CONVERTED = 'unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: '
LEFT, RIGHT, NOWHERE = Hint((0,), preferred=True), Hint((1,), preferred=True), Hint(None, preferred=False)


@dataclass
class Given:
    """A provider that tells what the test says, and notes what it is asked."""

    containers: Mapping[str, Hint] = field(default_factory=dict)
    pod: Hint = RIGHT
    asked: list[str] = field(default_factory=list)

    def container_hints(self, name: str) -> ProviderHints:
        """Tell the one of a container."""
        self.asked.append(name)
        return {"cpu": (self.containers[name],)}

    def pod_hints(self) -> ProviderHints:
        """Tell the one of the pod."""
        self.asked.append("pod")
        return {"cpu": (self.pod,)}


@pytest.mark.parametrize(
    ("policy", "scope", "affinities", "asked"),
    [
        pytest.param(RESTRICTED, CONTAINER, [("init", RIGHT), ("app", LEFT)], ["init", "app"], id="each-container"),
        pytest.param(RESTRICTED, POD, [("init", RIGHT), ("app", RIGHT)], ["pod"], id="the-pod-as-a-whole"),
        pytest.param(NONE, POD, [("init", NOWHERE), ("app", NOWHERE)], [], id="none-asks-nobody"),
    ],
)
def test_scopes(policy: str, scope: str, affinities: list[tuple[str, Hint]], asked: list[str]) -> None:
    """Init containers are first."""
    given = Given({"init": RIGHT, "app": LEFT})
    assert list(topology_manager(policy, scope, {}, TWO).affinities(["init", "app"], [given])) == affinities
    assert given.asked == asked


def test_the_next_container_is_asked_after_the_first_is_given_its_own() -> None:
    """Because what that takes changes the hints."""
    given = Given({"one": LEFT, "two": RIGHT})
    affinities = topology_manager(BEST_EFFORT, CONTAINER, {}, TWO).affinities(["one", "two"], [given])
    assert next(affinities) == ("one", LEFT)
    assert given.asked == ["one"]


@pytest.mark.parametrize("scope", [CONTAINER, POD])
def test_a_pod_that_cannot_be_aligned_is_refused(scope: str) -> None:
    """In the kubelet's words."""
    given = Given({"app": Hint((0, 1), preferred=False)}, Hint((0, 1), preferred=False))
    with pytest.raises(TopologyAffinityError) as refusal:
        list(topology_manager(SINGLE_NODE, scope, {}, TWO).affinities(["app"], [given]))
    assert str(refusal.value) == "Resources cannot be allocated with Topology locality"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"x": "true"}, 'unknown Topology Manager Policy option: "x"'),
        (
            {"prefer-closest-numa-nodes": "yes"},
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "many"},
            f'{NOT_CONVERTED}parsing "many": invalid syntax',
        ),
        (
            {"max-allowable-numa-nodes": "9223372036854775808"},
            f'{NOT_CONVERTED}parsing "9223372036854775808": value out of range',
        ),
        (
            {"max-allowable-numa-nodes": "7"},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
    ],
)
def test_wrong_options(given: dict[str, str], why: str) -> None:
    """Options are looked at unless the policy is none."""
    assert list(option_faults(given)) == [why]
    with pytest.raises(OptionError):
        topology_manager(BEST_EFFORT, CONTAINER, given, TWO)
    assert topology_manager(NONE, CONTAINER, given, TWO).policy.name == NONE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"prefer-closest-numa-nodes": "true"}, ""),
        ({"prefer-closest-numa-nodes": "yes"}, "the value must be true or false"),
        ({"max-allowable-numa-nodes": "7"}, "the value must be a number, 8 or more"),
        ({"x": "true"}, "the options are prefer-closest-numa-nodes and max-allowable-numa-nodes"),
    ],
)
def test_advice(given: dict[str, str], words: str) -> None:
    """What to do, beside the kubelet's words."""
    assert advice(given) == words


def test_right_options() -> None:
    """Both are stable."""
    assert parse_options({}) == Options(closest=False, most_nodes=8)
    given = {"prefer-closest-numa-nodes": "T", "max-allowable-numa-nodes": "+16"}
    assert parse_options(given) == Options(closest=True, most_nodes=16)


@pytest.mark.parametrize(
    ("policy", "scope", "given", "nodes", "why"),
    [
        (RESTRICTED, POD, {}, 9, "unsupported on machines with more than 8 NUMA Nodes"),
        ("strict", POD, {}, 2, 'unknown policy: "strict"'),
        (RESTRICTED, "node", {}, 2, 'unknown scope: "node"'),
        (
            RESTRICTED,
            POD,
            {"prefer-closest-numa-nodes": "true"},
            2,
            "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
        ),
    ],
)
def test_a_manager_that_cannot_work(policy: str, scope: str, given: dict[str, str], nodes: int, why: str) -> None:
    """The node must not start; the message is the kubelet's."""
    with pytest.raises(TopologyManagerError) as refusal:
        topology_manager(policy, scope, given, NumaNodes(tuple(range(nodes))))
    assert str(refusal.value) == why


def test_more_nodes_may_be_allowed() -> None:
    """By an option."""
    nine = NumaNodes(tuple(range(9)))
    assert topology_manager(RESTRICTED, POD, {"max-allowable-numa-nodes": "9"}, nine).scope == POD
