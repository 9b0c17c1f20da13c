"""Do containers keep their memory if the state file is lost, and does no node give more than it has, whatever the runtime says?"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.cri.runtime_container import RuntimeContainer, newest
from tests.workflows.decide.memory_nodes.machines import GIB, PAGES, machine
from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.memory_nodes.recovery import recovered
from workflows.decide.memory_nodes.static_policy import begun

IDLE = machine(pages=2).machine  # 7 - 2 and 8 - 2 GiB, and two huge pages each


def pinned(uid: str, nodes: str, gibibytes: int, **others: Any) -> RuntimeContainer:
    """Make a container of a guaranteed pod."""
    said: dict[str, Any] = {"name": "c", "is_guaranteed": True, "memory_limit": gibibytes * GIB, "cpuset_mems": nodes}
    return RuntimeContainer(uid, **said | others)


@pytest.mark.parametrize(
    ("found", "expected", "ignored"),
    [
        pytest.param([], {}, 0, id="nothing-runs"),
        pytest.param([pinned("a", "1", 2)], {"a": {"c": ["1 memory 2"]}}, 0, id="memory-of-one-node"),
        pytest.param([pinned("a", "0-1", 9)], {"a": {"c": ["0-1 memory 9"]}}, 0, id="of-two-nodes"),
        pytest.param(
            [pinned("a", "1", 2, huge_pages={"1GB": GIB, "2MB": 0})],
            {"a": {"c": ["1 memory 2", f"1 {PAGES} 1"]}},
            0,
            id="huge-pages",
        ),
        pytest.param([pinned("a", "", 2)], {}, 0, id="of-any-node"),
        pytest.param([pinned("a", "1", 2, is_guaranteed=False)], {}, 0, id="not-guaranteed"),
        pytest.param([pinned("a", "1", 0)], {}, 1, id="without-a-limit"),
        pytest.param([pinned("a", "2", 1)], {}, 1, id="a-node-that-is-not-there"),
        pytest.param([pinned("a", "0;1", 1)], {}, 1, id="no-list"),
        pytest.param([pinned("a", "1", 7)], {}, 1, id="more-than-the-node-has"),
        pytest.param([pinned("a", "1", 1, huge_pages={"1GB": 3 * GIB})], {}, 1, id="more-huge-pages-than-it-has"),
        pytest.param(
            [pinned("a", "1", 4, created_at=2), pinned("b", "1", 4, created_at=1)],
            {"b": {"c": ["1 memory 4"]}},
            1,
            id="too-much-together",
        ),
        pytest.param(
            [pinned("a", "0-1", 4, created_at=2), pinned("b", "1", 1, created_at=1)],
            {"b": {"c": ["1 memory 1"]}},
            1,
            id="a-node-that-serves-another-one-alone",
        ),
        pytest.param(
            [pinned("a", "1", 4, name="init", is_up=False, has_succeeded=True, finished_at=5), pinned("a", "1", 4, created_at=6)],
            {"a": {"c": ["1 memory 4"]}},
            0,
            id="an-init-container-that-ended-has-nothing",
        ),
        pytest.param(
            [pinned("a", "1", 2, name="d", is_up=False, finished_at=5), pinned("a", "1", 2, created_at=6)],
            {"a": {"c": ["1 memory 2"], "d": ["1 memory 2"]}},
            0,
            id="one-that-failed-may-start-again",
        ),
    ],
)  # fmt: skip
def test_who_keeps_which_memory(found: list[RuntimeContainer], expected: dict[str, Any], ignored: int) -> None:
    """What is not taken back is told of, unless it is nobody's."""
    answer = recovered(IDLE, found)
    told = {
        uid: {
            name: [f"{written_cpus(one.nodes)} {one.resource} {one.size // GIB}" for one in blocks]
            for name, blocks in of.items()
        }
        for uid, of in answer.assignments.containers.items()
    }
    assert (told, len(answer.ignored)) == (expected, ignored)


def test_a_size_of_page_that_not_all_nodes_have() -> None:
    """It is not given to a container of both."""
    odd = {**IDLE, 1: replace(IDLE[1], memory={"memory": IDLE[1].table("memory")})}
    assert recovered(odd, [pinned("a", "0-1", 1, huge_pages={"1GB": GIB})]).assignments.containers == {}


CONTAINERS = st.lists(
    st.builds(
        RuntimeContainer,
        uid=st.sampled_from("abc"),
        name=st.sampled_from("xy"),
        created_at=st.integers(0, 3),
        is_up=st.booleans(),
        is_guaranteed=st.sampled_from([True, True, False]),
        cpuset_mems=st.sampled_from(["", "0", "1", "0-1", "0,1", "2", "x"]),
        memory_limit=st.integers(-1, 5).map(lambda size: size * GIB),
        huge_pages=st.dictionaries(st.sampled_from(["1GB", "2MB"]), st.sampled_from([-1, 0, GIB, 2 * GIB])),
        has_succeeded=st.booleans(),
        finished_at=st.integers(0, 3),
    ),
    max_size=10,
)


@given(CONTAINERS)
def test_no_node_gives_more_than_it_has(found: list[RuntimeContainer]) -> None:
    """The node starts with what was found, and the order in which the runtime lists its containers does not count."""
    kept = newest(found)
    known = recovered(IDLE, kept).assignments
    assert recovered(IDLE, kept[::-1]).assignments == known
    begun(IDLE, known)
    blocks = [block for of in known.containers.values() for given_ in of.values() for block in given_]
    assert all(block.size > 0 for block in blocks)
    for resource in ("memory", PAGES):
        tables = [node.table(resource) for node in known.machine.values()]
        assert all(one.free >= 0 for one in tables)
        assert sum(one.reserved for one in tables) == sum(one.size for one in blocks if one.resource == resource)
