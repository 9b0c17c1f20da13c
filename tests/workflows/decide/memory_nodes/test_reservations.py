"""Which memoryManagerPolicy and reservedMemory are refused, and in which words?"""

from collections.abc import Mapping
from typing import Any

import pytest

from proto.kubernetes.resources.quantity import parse_with_form
from workflows.decide.memory_nodes.reservations import (
    Amount,
    ReservationError,
    advice,
    configuration_faults,
    machine_faults,
    policy_fault,
    reservations,
    reserved_by_node,
)

GIB = 2**30


def on(node: int, **limits: str) -> dict[str, Any]:
    """Make an entry of the key."""
    return {"numaNode": node, "limits": {name.replace("_", "-"): amount for name, amount in limits.items()}}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("None", ""),
        ("Static", ""),
        ("BestEffort", 'policy "BestEffort" is not available for platform "linux"'),
        ("static", 'unknown policy: "static"'),
    ],
)
def test_policies(policy: str, why: str) -> None:
    """Of Linux."""
    assert policy_fault(policy) == why


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ([on(0, memory="1Gi"), on(1, memory="1Gi", hugepages_2Mi="2Mi")], []),
        (
            [on(0, cpu="1")],
            [
                'the limit type "cpu" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted'
            ],
        ),
        ([on(1, memory="0")], ['reserved memory may not be zero for NUMA node 1 and resource "memory"']),
        (
            [on(0, memory="1Gi"), on(0, memory="1Gi")],
            ['the reserved memory has a duplicate value for NUMA node 0 and resource "memory"'],
        ),
    ],
)
def test_what_no_machine_can_have(given: list[Mapping[str, Any]], faults: list[str]) -> None:
    """All faults are named."""
    found = list(configuration_faults(reservations(given)))
    assert found == [f"invalid configuration: {one}" for one in faults]


@pytest.mark.parametrize(
    ("given", "reserved", "why"),
    [
        pytest.param(
            [on(2, memory="1Gi")],
            {"memory": "1Gi"},
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
            id="missing-node",
        ),
        pytest.param(
            [on(0, memory="1Gi")],
            {"memory": "1124Mi"},
            'the total amount "1Gi" of type "memory" is not equal to the value "1124Mi" '
            "determined by Node Allocatable feature",
            id="less-than-the-node-reserves",
        ),
        pytest.param(
            [],
            {"memory": "100Mi"},
            'the total amount "0" of type "memory" is not equal to the value "100Mi" '
            "determined by Node Allocatable feature",
            id="nothing",
        ),
        pytest.param(
            [on(0, memory="1Gi"), on(1, hugepages_1Gi="1Gi")],
            {"memory": "1Gi"},
            'the total amount "1Gi" of type "hugepages-1Gi" is not equal to the value "0" '
            "determined by Node Allocatable feature",
            id="huge-pages-that-the-node-does-not-reserve",
        ),
    ],
)
def test_what_does_not_suit_the_machine(given: list[Mapping[str, Any]], reserved: dict[str, str], why: str) -> None:
    """Of two nodes."""
    amounts = {name: Amount(*parse_with_form(amount)) for name, amount in reserved.items()}
    assert list(machine_faults(reservations(given), (0, 1), amounts)) == [why]
    with pytest.raises(ReservationError):
        reserved_by_node(reservations(given), (0, 1), amounts)


@pytest.mark.parametrize(
    ("given", "reserved", "words"),
    [
        pytest.param([on(0, memory="1Gi")], {"memory": "1Gi"}, "", id="nothing-is-wrong"),
        pytest.param([on(2, memory="1Gi")], {"memory": "1Gi"}, "the machine has the NUMA nodes 0, 1", id="missing-node"),
        pytest.param(
            [on(0, memory="1Gi")],
            {"memory": "1124Mi"},
            "all memory in it together must be 1124Mi, which is what kubeReserved, systemReserved and the hard "
            "eviction threshold keep from pods",
            id="another-sum",
        ),
        pytest.param(
            [on(0, memory="1Gi"), on(1, hugepages_1Gi="1Gi")],
            {"memory": "1Gi"},
            "the node reserves no hugepages-1Gi: remove it",
            id="huge-pages",
        ),
        pytest.param(
            [], {}, "reserve memory in kubeReserved or systemReserved, and as much in reservedMemory", id="none-at-all"
        ),
        pytest.param([on(0, memory="1500m")], {"memory": "1500m"}, "", id="half-a-byte"),
    ],
)  # fmt: skip
def test_advice(given: list[Mapping[str, Any]], reserved: dict[str, str], words: str) -> None:
    """What to do, beside the kubelet's words."""
    amounts = {name: Amount(*parse_with_form(amount)) for name, amount in reserved.items()}
    assert advice(reservations(given), (0, 1), amounts) == words


def test_reserved_by_node() -> None:
    """The sum counts, however it is split and written."""
    given = reservations([on(0, memory="1Gi"), on(1, memory="104857600")])
    reserved = {"memory": Amount(*parse_with_form("1124Mi")), "cpu": Amount(*parse_with_form("1"))}
    assert reserved_by_node(given, (0, 1, 2), reserved) == {0: {"memory": GIB}, 1: {"memory": 100 * 2**20}, 2: {}}


@pytest.mark.parametrize(
    ("given", "reserved", "why"),
    [
        ([], {}, "[memorymanager] you should specify the system reserved memory"),
        ([on(0, memory="1500m")], {"memory": "1500m"}, "could not covert a variable of type Quantity to int64"),
    ],
)
def test_reservations_of_no_use(given: list[Mapping[str, Any]], reserved: dict[str, str], why: str) -> None:
    """The spelling is the kubelet's."""
    amounts = {name: Amount(*parse_with_form(amount)) for name, amount in reserved.items()}
    with pytest.raises(ReservationError) as refusal:
        reserved_by_node(reservations(given), (0, 1), amounts)
    assert str(refusal.value) == why
