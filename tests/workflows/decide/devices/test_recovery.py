"""Are devices read back from containers' annotations, and does none go to two pods, whatever stands there?"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.cri.runtime_container import RuntimeContainer
from workflows.decide.devices.assignments import Assigned, Assignments
from workflows.decide.devices.recovery import LONGEST, recovered, written_devices

GPU = "example.com/gpu"
NONE = Assignments()


def has(uid: str, text: str, **others: Any) -> RuntimeContainer:
    """Make a container with an annotation."""
    return RuntimeContainer(uid, **{"name": "c", "devices": text} | others)


def one(*ids: str, node: int = -1) -> str:
    """Write some devices of one resource."""
    return written_devices({GPU: Assigned({node: ids})})


def test_what_is_written_is_read() -> None:
    """Names and NUMA nodes, and nothing of what the plugin answered."""
    given_ = {GPU: Assigned({0: ("a",), 1: ("b",)}, b"secret"), "example.com/nic": Assigned({-1: ("n",)}, b"")}
    text = written_devices(given_)
    assert text == '{"example.com/gpu":{"0":["a"],"1":["b"]},"example.com/nic":{"-1":["n"]}}'
    found = recovered(NONE, [has("u", text)]).assignments
    assert found.pods == {"u": {"c": {name: Assigned(had.devices, None) for name, had in given_.items()}}}
    assert written_devices({}) == written_devices({GPU: Assigned({})}) == ""
    assert written_devices({GPU: Assigned({0: ("x" * LONGEST,)})}) == ""


def test_the_checkpoint_counts() -> None:
    """It knows what the plugin answered; the annotation adds what it lacks."""
    known = NONE.with_assigned("u", "c", GPU, Assigned({-1: ("a",)}, b"answer"))
    found = recovered(known, [has("u", one("b")), has("v", one("c")), has("w", one("a"))])
    assert found.assignments.pods["u"] == known.pods["u"]
    assert found.assignments.of("v", "c", GPU) == frozenset("c")
    assert found.assignments.of("w", "c", GPU) is None
    assert found.ignored == (f"container c of pod w has devices of {GPU} that another pod has, which keeps them",)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"created_at": 1}, {"created_at": 2}, id="the-older-one"),
        pytest.param({"created_at": 2}, {"created_at": 1, "is_up": False}, id="the-one-that-runs"),
    ],
)
def test_who_keeps_a_device_that_two_pods_have(first: dict[str, Any], second: dict[str, Any]) -> None:
    """In whatever order the runtime lists them."""
    both = [has("u", one("a"), **first), has("v", one("a"), **second)]
    for listed in (both, both[::-1]):
        assert recovered(NONE, listed).assignments.pods.keys() == {"u"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "1",
        '{"example.com/gpu":["a"]}',
        '{"example.com/gpu":{"0":"a","x":[]}}',
        '{"example.com/gpu":{"x":["a"]}}',
        '{"example.com/gpu":{"-2":["a"]}}',
        '{"example.com/gpu":{"99999":["a"]}}',
        '{"example.com/gpu":{"0":[1]}}',
        '{"example.com/gpu":{"0":[""]}}',
        '{"example.com/gpu":{"0":[]}}',
        '{"":{"0":["a"]}}',
        json.dumps({GPU: {"0": ["x" * 1000]}}),
        json.dumps({GPU: {"0": ["a"] * LONGEST}}),
        "[" * 100_000,
        '{"a":{"' + "1" * 10_000 + '":["a"]}}',
    ],
)
def test_what_is_no_annotation_of_ours(text: str) -> None:
    """It is told of, and does no harm to others."""
    found = recovered(NONE, [has("u", text), has("v", one("a"))])
    assert found.assignments.pods.keys() == {"v"}
    assert found.ignored == ("the devices of container c of pod u cannot be read",)


CONTAINERS = st.lists(
    st.builds(
        RuntimeContainer,
        uid=st.sampled_from("uvw"),
        name=st.sampled_from("cd"),
        created_at=st.integers(0, 2),
        is_up=st.booleans(),
        devices=st.lists(st.sampled_from("abcd"), max_size=2).map(lambda ids: one(*ids)) | st.text(max_size=5),
    ),
    max_size=8,
)


@given(CONTAINERS)
def test_no_device_is_left_to_two_pods(found: list[RuntimeContainer]) -> None:
    """Also together with what the checkpoint says."""
    known = NONE.with_assigned("u", "c", GPU, Assigned({-1: ("a",)}, b""))
    kept = recovered(known, found).assignments
    assert kept.of("u", "c", GPU) == frozenset("a")
    pods = list(kept.pods)
    assert all(not kept.of_pod(x, GPU) & kept.of_pod(y, GPU) for x in pods for y in pods if x != y)
