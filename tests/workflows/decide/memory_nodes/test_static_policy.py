"""From which NUMA nodes does a container have its memory, and who may have it after it?"""

from dataclasses import replace
from typing import Any

import pytest

from tests.workflows.decide.memory_nodes.machines import GIB, PAGES, machine, pod
from workflows.decide.memory_nodes.amounts import Assignments, Block, Node, Table
from workflows.decide.memory_nodes.hints import container_hints, pod_hints
from workflows.decide.memory_nodes.requests import MemoryNodesError, PodRequest, pod_request
from workflows.decide.memory_nodes.static_policy import (
    NodeMemory,
    StateError,
    allocate,
    begun,
    begun_with_other_sizes,
    idle_machine,
    machine_with,
    released,
)
from workflows.decide.topology.hints import Hint, ProviderHints

ANYWHERE = Hint(None, preferred=False)


def given(known: Assignments, *pods: PodRequest, affinity: Hint = ANYWHERE) -> Assignments:
    """Give all containers of pods their memory."""
    for one in pods:
        for container in one.containers:
            known = allocate(known, one, container.name, affinity)
    return known


def resized(known: Assignments, drift: int, reserved: int = 0) -> Assignments:
    """Give each node of a machine so much more memory, and reserve more of it."""
    nodes = {}
    for number, node in known.machine.items():
        table = node.table("memory")
        table = replace(
            table,
            total=table.total + drift,
            system_reserved=table.system_reserved + reserved,
            allocatable=table.allocatable + drift - reserved,
            free=table.free + drift - reserved,
        )
        nodes[number] = node.with_table("memory", table)
    return replace(known, machine=nodes)


def free(known: Assignments) -> dict[int, int]:
    """Return the GiB that each node has left."""
    return {number: node.table("memory").free // GIB for number, node in known.machine.items()}


def test_an_idle_machine() -> None:
    """Huge pages are no memory, and what is reserved is not allocatable."""
    nodes = {0: NodeMemory(8 * GIB, {GIB: 2, 2 * 2**20: 0}), 1: NodeMemory(4 * GIB)}
    assert idle_machine(nodes, {0: {"memory": GIB, PAGES: GIB}}) == {
        0: Node(
            (0,),
            {
                PAGES: Table(2 * GIB, GIB, GIB, 0, GIB),
                "hugepages-2Mi": Table(),
                "memory": Table(8 * GIB, GIB, 5 * GIB, 0, 5 * GIB),
            },
        ),
        1: Node((1,), {"memory": Table(4 * GIB, 0, 4 * GIB, 0, 4 * GIB)}),
    }


def test_more_reserved_than_a_node_has() -> None:
    """Leaves nothing; the kubelet's unsigned number turns to 16 EiB."""
    assert idle_machine({0: NodeMemory(GIB)}, {0: {"memory": 2 * GIB}})[0].table("memory").allocatable == 0


@pytest.mark.parametrize(
    ("sizes", "affinity", "nodes", "left"),
    [
        pytest.param([3], ANYWHERE, (0,), {0: 4, 1: 8}, id="the-lowest-node-with-enough"),
        pytest.param([8], ANYWHERE, (1,), {0: 7, 1: 0}, id="a-node-that-has-all"),
        pytest.param([3], Hint((1,), preferred=True), (1,), {0: 7, 1: 5}, id="where-the-topology-manager-says"),
        pytest.param([12], ANYWHERE, (0, 1), {0: 0, 1: 3}, id="two-nodes-the-lower-one-first"),
        pytest.param([12], Hint((1,), preferred=False), (0, 1), {0: 0, 1: 3}, id="more-nodes-than-it-says"),
        pytest.param([2], Hint((0, 1), preferred=False), (0, 1), {0: 5, 1: 8}, id="a-group-though-one-has-enough"),
    ],
)
def test_allocation(sizes: list[int], affinity: Hint, nodes: tuple[int, ...], left: dict[int, int]) -> None:
    """Of one container on two nodes with 7 and 8 GiB."""
    known = given(machine(), pod(app=sizes[0]), affinity=affinity)
    assert known.of("pod", "app") == (Block(nodes, "memory", sizes[0] * GIB),)
    assert known.nodes_of("pod", "app") == nodes
    assert free(known) == left
    assert all(known.machine[one].group == nodes for one in nodes)


@pytest.mark.parametrize(
    ("before", "size", "affinity", "why"),
    [
        pytest.param(
            [],
            16,
            ANYWHERE,
            "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
            id="nobody-has-enough",
        ),
        pytest.param(
            [5, 5],
            4,
            Hint((0,), preferred=True),
            "failed to find NUMA nodes to extend the current topology hint",
            id="a-node-that-serves-others-joins-no-group",
        ),
        pytest.param(
            [], 8, Hint((0,), preferred=True), "failed to find the extended preferred hint", id="not-preferred"
        ),
        pytest.param([1], 3, Hint((0, 1), preferred=False), "preferred hint violates NUMA node allocation", id="group"),
        pytest.param([6], 8, Hint(None, preferred=True), "", id="the-other-node"),
        pytest.param(
            [6, 1],
            8,
            Hint(None, preferred=True),
            "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
            id="both-nodes-serve-others",
        ),
    ],
)
def test_refusals(before: list[int], size: int, affinity: Hint, why: str) -> None:
    """In the kubelet's words; nothing is taken."""
    known = machine()
    for number, one in enumerate(before):
        known = given(known, pod(f"before-{number}", app=one), affinity=Hint((number,), preferred=True))
    if not why:
        assert given(known, pod(app=size), affinity=affinity).nodes_of("pod", "app") == (1,)
        return
    with pytest.raises(MemoryNodesError) as refusal:
        given(known, pod(app=size), affinity=affinity)
    assert str(refusal.value) == f"[memorymanager] {why}"


def test_the_default_nodes_must_be_preferred_if_the_topology_manager_says_so() -> None:
    """Two nodes for what one could have if it were idle are not."""
    known = given(machine(3), pod("other", app=4), affinity=Hint((0,), preferred=True))
    for node in (1, 2):
        table = replace(known.machine[node].table("memory"), free=5 * GIB, reserved=3 * GIB)
        known = replace(known, machine={**known.machine, node: known.machine[node].with_table("memory", table)})
    with pytest.raises(MemoryNodesError, match="failed to find the default preferred hint"):
        given(known, pod(app=8), affinity=Hint(None, preferred=True))
    assert given(known, pod(app=8)).nodes_of("pod", "app") == (1, 2)


def test_other_pods_get_none() -> None:
    """Only guaranteed pods do."""
    other = replace(pod(app=3), is_pinned=False)
    assert given(machine(), other) == machine()
    assert container_hints(machine(), other, "app") == pod_hints(machine(), other) == {}


def test_what_an_init_container_has_is_used_again() -> None:
    """By the next containers of its pod; what sidecars have is not."""
    known = given(machine(), pod(init=3, sidecar=1, app=4))
    assert known.containers["pod"] == {
        "init": (Block((0,), "memory", 0),),
        "sidecar": (Block((0,), "memory", GIB),),
        "app": (Block((0,), "memory", 4 * GIB),),
    }
    assert free(known) == {0: 2, 1: 8}


def test_two_init_containers_have_the_same() -> None:
    """The larger one counts."""
    known = given(machine(), pod(init_one=3, init_two=5))
    assert free(known) == {0: 2, 1: 8}
    assert [block.size // GIB for name in ("init_one", "init_two") for block in known.of("pod", name) or ()] == [0, 5]


def test_another_pod_ends_the_reuse() -> None:
    """Only one pod is admitted at a time."""
    first = pod(init=3, app=3)
    known = given(allocate(machine(), first, "init", ANYWHERE), pod("other", app=1))
    assert free(allocate(known, first, "app", ANYWHERE)) == {0: 0, 1: 8}


def test_allocation_twice_is_one() -> None:
    """Also after a restart, which forgets what may be used again."""
    known = given(machine(), pod(init=3, app=1))
    assert given(known, pod(init=3, app=1)).machine == known.machine
    assert known.of("pod", "init") == (Block((0,), "memory", 2 * GIB),)


def test_release() -> None:
    """The last block of a group sets its nodes free."""
    known = given(machine(), pod(app=12), pod("other", app=2), affinity=Hint((0, 1), preferred=False))
    known = released(known, "pod", ["app", "missing"])
    assert free(known) == {0: 7, 1: 6}
    assert known.machine[0].group == (0, 1)
    assert released(known, "other", ["app"]) == replace(machine(), reusable_by="other", reusable=known.reusable)


def test_init_containers_are_released_when_the_next_one_starts() -> None:
    """A sidecar keeps its memory."""
    one = pod(init_one=1, sidecar=1, init_two=2, app=1)
    assert one.ended_before("init_two") == ("init_one",)
    assert one.ended_before("app") == ("init_one", "init_two")


@pytest.mark.parametrize(
    ("before", "size", "hints"),
    [
        pytest.param({}, 3, [(0,), (1,), (0, 1)], id="each-node-and-both"),
        pytest.param({}, 8, [(1,), (0, 1)], id="one-node-has-enough"),
        pytest.param({(0,): 1}, 3, [(0,), (1,)], id="a-node-that-serves-others-is-in-no-group"),
        pytest.param({(0, 1): 1}, 3, [(0, 1)], id="nodes-of-a-group-serve-together"),
        pytest.param({(0,): 6, (1,): 6}, 3, [], id="none-has-enough"),
    ],
)
def test_hints(before: dict[tuple[int, ...], int], size: int, hints: list[tuple[int, ...]]) -> None:
    """The fewest nodes that could have enough are preferred."""
    known = machine()
    for number, (nodes, one) in enumerate(before.items()):
        known = given(known, pod(f"before-{number}", app=one), affinity=Hint(nodes, preferred=False))
    found = tuple(Hint(nodes, len(nodes) == 1) for nodes in hints)
    expected: ProviderHints = {"memory": found} if found else {}
    assert container_hints(known, pod(app=size), "app") == pod_hints(known, pod(app=size)) == expected


def test_hints_for_what_is_given_already() -> None:
    """Name where it is, or nothing if the amount is another one."""
    known = given(machine(), pod(app=3), affinity=Hint((1,), preferred=True))
    assert container_hints(known, pod(app=3), "app") == {"memory": (Hint((1,), preferred=True),)}
    assert container_hints(known, pod(app=4), "app") == pod_hints(known, pod(app=4)) == {}


def test_huge_pages_come_from_the_same_nodes() -> None:
    """The hints of both are the same."""
    one = pod_request(manifest(app={"memory": "7Gi", PAGES: "2Gi"}))
    known = machine(pages=1)
    both = (Hint((0, 1), preferred=True),)
    assert container_hints(known, one, "app") == {"memory": both, PAGES: both}
    known = given(known, one)
    assert known.of("pod", "app") == (Block((0, 1), "memory", 7 * GIB), Block((0, 1), PAGES, 2 * GIB))
    assert [node.assignments for node in known.machine.values()] == [2, 2]


def test_a_size_of_page_that_the_machine_lacks() -> None:
    """Is refused; the kubelet panics."""
    one = pod_request(manifest(app={"memory": "1Gi", "hugepages-64Ki": "1Mi"}))
    with pytest.raises(MemoryNodesError, match="no NUMA nodes with enough memory is available"):
        given(machine(), one)


def manifest(**containers: dict[str, str]) -> dict[str, Any]:
    """Make the manifest of a guaranteed pod."""
    return {
        "metadata": {"uid": "pod"},
        "spec": {
            "containers": [
                {"name": name, "resources": {kind: {"cpu": "1", **sizes} for kind in ("requests", "limits")}}
                for name, sizes in containers.items()
            ]
        },
    }


def test_requests() -> None:
    """Of guaranteed pods without resources of their own, whole bytes."""
    content = manifest(app={"memory": "1Gi", "example.com/dongle": "1"})
    assert pod_request(content) == pod(app=1)
    assert not pod_request({**content, "spec": {**content["spec"], "resources": {"limits": {"cpu": "1"}}}}).is_pinned
    content["spec"]["containers"][0]["resources"]["limits"]["memory"] = "2Gi"
    assert not pod_request(content).is_pinned
    part = pod_request(manifest(app={"memory": "1500m"}))
    assert container_hints(machine(), part, "app") == pod_hints(machine(), part) == {}
    with pytest.raises(MemoryNodesError, match="failed to represent quantity as int64"):
        given(machine(), part)


@pytest.mark.parametrize(
    ("containers", "gibibytes"),
    [
        ({"app": 1, "other": 2}, 3),
        ({"init": 5, "app": 1, "other": 2}, 5),
        ({"sidecar": 1, "init": 4, "app": 1}, 5),
        ({"init": 2, "sidecar": 3, "app": 1}, 4),
    ],
)
def test_the_most_that_a_pod_has_at_a_time(containers: dict[str, int], gibibytes: int) -> None:
    """Init containers end before the next container starts."""
    assert pod(**containers).sizes == {"memory": gibibytes * GIB}


def test_a_known_state_that_suits_the_machine() -> None:
    """How much of a group lies on which of its nodes does not matter."""
    idle = machine().machine
    known = given(machine(), pod(app=12), pod("other", app=1), affinity=Hint((0, 1), preferred=False))
    assert begun(idle, known) is known
    known = released(known, "pod", ["app"])
    assert free(known) != {
        number: node.table("memory").free // GIB for number, node in machine_with(idle, known.containers).items()
    }
    assert begun(idle, known) is known


@pytest.mark.parametrize(
    ("known", "why"),
    [
        pytest.param(
            Assignments({}, {"pod": {"app": (Block((0,), "memory", GIB),)}}),
            "machine state can not be empty when it has memory assignments",
            id="no-machine",
        ),
        pytest.param(machine(3), "the expected machine state is different from the real one", id="other-nodes"),
        pytest.param(machine(pages=1), "the expected machine state is different from the real one", id="other-pages"),
        pytest.param(
            replace(machine(), containers={"pod": {"app": (Block((0,), "memory", GIB),)}}),
            "the expected machine state is different from the real one",
            id="other-amounts",
        ),
        pytest.param(
            replace(machine(), containers={"pod": {"app": (Block((2,), "memory", GIB),)}}),
            "(pod: pod, container: app) the memory assignment uses the NUMA that does not exist",
            id="missing-node",
        ),
        pytest.param(
            replace(machine(), containers={"pod": {"app": (Block((0,), PAGES, GIB),)}}),
            "(pod: pod, container: app) the memory assignment uses memory resource that does not exist",
            id="missing-resource",
        ),
    ],
)
def test_a_known_state_that_does_not(known: Assignments, why: str) -> None:
    """The node must not start."""
    with pytest.raises(StateError) as refusal:
        begun(machine().machine, known)
    assert str(refusal.value) == f"[memorymanager] {why}"


@pytest.mark.parametrize("drift", [-(2**26), 2**26], ids=["less", "more"])
def test_nodes_of_other_sizes_than_before(drift: int) -> None:
    """After a reboot the kernel keeps a little more or less of each node; what was given stays given."""
    known = given(machine(), pod(app=12), pod("other", app=1), affinity=Hint((0, 1), preferred=False))
    now = resized(machine(), drift).machine
    with pytest.raises(StateError):
        begun(now, known)
    found = begun_with_other_sizes(now, known)
    assert found is not None
    assert found.containers == known.containers
    assert begun(now, found) is found
    total = sum(node.table("memory").free for node in found.machine.values())
    assert total == sum(node.table("memory").free for node in known.machine.values()) + 2 * drift


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(machine(3), id="other-nodes"),
        pytest.param(machine(pages=1), id="other-pages"),
        pytest.param(
            replace(machine(), containers={"pod": {"app": (Block((0,), "memory", GIB),)}}), id="other-amounts"
        ),
        pytest.param(replace(machine(), containers={"pod": {"app": (Block((2,), "memory", GIB),)}}), id="missing-node"),
        pytest.param(given(machine(), pod(app=7), affinity=Hint((0,), preferred=True)), id="too-little-is-left"),
        pytest.param(resized(machine(), 0, reserved=GIB), id="other-reservation"),
    ],
)
def test_nodes_of_other_sizes_that_suit_nothing(known: Assignments) -> None:
    """Then the node must not start, either."""
    assert begun_with_other_sizes(resized(machine(), -GIB).machine, known) is None
