"""Do containers keep their CPUs if the state file is lost, and is no CPU left to two pods, whatever the runtime says?"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.cri.runtime_container import RuntimeContainer, newest
from tests.workflows.decide.cpus.machines import machine
from workflows.decide.cpus.cpu_sets import NONE, written_cpus
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.recovery import recovered
from workflows.decide.cpus.static_policy import begun, static_policy
from workflows.decide.topology.number_sets import LONGEST

TOPOLOGY = machine()
POLICY = static_policy(TOPOLOGY, Options(), 1)  # CPU 0 of 0-7 is reserved
STRICT = static_policy(TOPOLOGY, Options(strict_reservation=True), 1)


def own(uid: str, cpus: str, count: int, **others: Any) -> RuntimeContainer:
    """Make a container of a guaranteed pod that asks for so many whole CPUs."""
    said: dict[str, Any] = {"name": "c", "is_guaranteed": True, "cpu_shares": count * 1024, "cpuset_cpus": cpus}
    return RuntimeContainer(uid, **said | others)


def shared(uid: str, cpus: str, **others: Any) -> RuntimeContainer:
    """Make a container that uses the shared CPUs."""
    return own(uid, cpus, 1, is_guaranteed=False, **others)


@pytest.mark.parametrize(
    ("found", "expected", "ignored"),
    [
        pytest.param([], {}, 0, id="nothing-runs"),
        pytest.param([own("a", "1-2", 2)], {"a": {"c": "1-2"}}, 0, id="whole-cpus-of-a-guaranteed-pod"),
        pytest.param([own("a", "1", 1), shared("b", "0,2-7")], {"a": {"c": "1"}}, 0, id="beside-a-shared-container"),
        pytest.param([own("a", "1", 1), shared("b", "0-7")], {"a": {"c": "1"}}, 0, id="others-have-not-given-way-yet"),
        pytest.param([own("a", "1-2", 1)], {}, 0, id="more-cpus-than-it-asks-for"),
        pytest.param([own("a", "1", 1, cpu_shares=1025)], {}, 0, id="no-whole-cpus"),
        pytest.param([own("a", "1", 1, is_guaranteed=False)], {}, 0, id="not-guaranteed"),
        pytest.param([own("a", "", 1)], {}, 0, id="no-set"),
        pytest.param([own("a", "0", 1)], {}, 0, id="the-reserved-cpu-is-shared"),
        pytest.param([own("a", "0-1", 2)], {}, 0, id="with-the-reserved-cpu-it-is-shared"),
        pytest.param([own("a", "3", 1), shared("b", "3")], {}, 0, id="the-same-set-as-a-shared-container"),
        pytest.param([own("a", "8", 1)], {}, 1, id="a-cpu-that-is-not-there"),
        pytest.param([own("a", "1;2", 1)], {}, 1, id="no-list"),
        pytest.param([own("a", "1-99999999999999999999", 1)], {}, 1, id="endless"),
        pytest.param([own("a", "1," * LONGEST, 1)], {}, 1, id="too-long"),
        pytest.param(
            [own("a", "1-2", 2, created_at=2), own("b", "2-3", 2, created_at=1)],
            {"b": {"c": "2-3"}},
            1,
            id="of-two-pods-the-older-one-keeps-them",
        ),
        pytest.param(
            [own("a", "1", 1, created_at=1, is_up=False), own("b", "1", 1, created_at=2)],
            {"b": {"c": "1"}},
            1,
            id="the-one-that-runs-keeps-them",
        ),
        pytest.param([own("a", "1", 1, is_up=False)], {"a": {"c": "1"}}, 0, id="it-may-start-again"),
        pytest.param(
            [own("a", "1-2", 2, name="init", is_up=False), own("a", "1", 1)],
            {"a": {"c": "1", "init": "1-2"}},
            0,
            id="those-of-an-init-container-are-the-next-ones",
        ),
        pytest.param(
            [own("a", "1", 1), own("a", "1", 1, name="d")],
            {"a": {"c": "1"}},
            1,
            id="two-containers-of-a-pod-do-not-run-on-one-cpu",
        ),
    ],
)
def test_who_keeps_which_cpus(found: list[RuntimeContainer], expected: dict[str, Any], ignored: int) -> None:
    """What is not taken back is told of, unless it is shared."""
    answer = recovered(POLICY, found)
    told = {
        uid: {name: written_cpus(cpus) for name, cpus in of.items()}
        for uid, of in answer.assignments.containers.items()
    }
    assert (told, len(answer.ignored)) == (expected, ignored)


def test_something_is_left_to_share() -> None:
    """With strictly reserved CPUs, too: a node that shares none does not start again."""
    answer = recovered(STRICT, [own("a", "1-6", 6, created_at=1), own("b", "7", 1, created_at=2)])
    assert answer.assignments.containers == {"a": {"c": frozenset(range(1, 7))}}
    assert answer.ignored == ("container c of pod b has CPU 7: nothing would be left to share",)


def test_the_newest_container_of_a_name_counts() -> None:
    """One that is up, even if an older one ended later."""
    old, new = own("a", "1", 1, created_at=1, is_up=False), own("a", "2", 1, created_at=2, is_up=False)
    up = replace(old, is_up=True)
    assert newest([old, new]) == newest([new, old]) == (new,)
    assert newest([new, up]) == (up,)


CPUS = st.frozensets(st.integers(0, 9), max_size=4).map(written_cpus) | st.text("0123456789,-x", max_size=6)
CONTAINERS = st.lists(
    st.builds(
        RuntimeContainer,
        uid=st.sampled_from("abc"),
        name=st.sampled_from("xyz"),
        created_at=st.integers(0, 3),
        is_up=st.booleans(),
        is_guaranteed=st.sampled_from([True, True, False]),
        cpu_shares=st.integers(0, 4).map(lambda count: count * 1024),
        cpuset_cpus=CPUS,
    ),
    max_size=12,
)


@given(CONTAINERS, st.sampled_from([POLICY, STRICT]))
def test_no_cpu_is_left_to_two_pods(found: list[RuntimeContainer], policy: Any) -> None:
    """The node starts with what was found, and the order in which the runtime lists its containers does not count."""
    kept = newest(found)
    known = recovered(policy, kept).assignments
    assert recovered(policy, kept[::-1]).assignments == known
    begun(policy, known)
    pods = list(known.containers)
    assert all(not known.of_pod(one) & known.of_pod(other) for one in pods for other in pods if one != other)
    for uid in pods:
        up = [cpus for name, cpus in known.containers[uid].items() if _is_up(kept, uid, name)]
        assert sum(map(len, up)) == len(NONE.union(*up))
    assert not policy.reserved & NONE.union(*map(known.of_pod, pods))


def _is_up(found: tuple[RuntimeContainer, ...], uid: str, name: str) -> bool:
    return next(one.is_up for one in found if (one.uid, one.name) == (uid, name))
