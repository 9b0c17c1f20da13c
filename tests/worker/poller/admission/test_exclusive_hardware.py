"""Is the ledger asked for pods that need hardware alone, and told of every pod that may have some?"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from proto.temporal.hardware.ledger import UNEXPECTED, Admit
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.admission.full_node import FullNode, asking
from worker.poller.admission.exclusive_hardware import ExclusiveHardware
from workflows.decide.node.hardware_needs import HardwarePolicies
from workflows.decide.node.node_admission import NodeFacts


class Ledger:
    """Remembers what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Admit] = []
        self.answer: Rejected | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    async def admit(self, pod: PodJson, counting: Callable[[], Iterable[str]]) -> Rejected | None:
        """Answer as the test says, after something has happened."""
        self.meanwhile()
        self.asked.append(Admit(pod, tuple(sorted(counting()))))
        return self.answer


@pytest.fixture
def ledger() -> Ledger:
    """Return an empty one."""
    return Ledger()


@pytest.fixture
def node(tmp_path: Path, ledger: Ledger) -> FullNode:
    """Return a node with the static policy."""
    made = FullNode(tmp_path)
    room = {"cpu": parse_quantity("2"), "memory": parse_quantity("1Gi")}
    made.node.facts = lambda: NodeFacts("n", allocatable=room)  # type: ignore[method-assign]  # with memory, too
    made.admission.hardware = ExclusiveHardware(HardwarePolicies(cpus=True), ledger.admit)
    return made


def whole(uid: str, cpu: str = "1") -> dict[str, Any]:
    """Write a guaranteed pod with CPUs of its own."""
    pod = asking(uid, cpu)
    amounts = {"cpu": cpu, "memory": "1Mi"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod


async def test_an_ordinary_pod_costs_no_message(node: FullNode, ledger: Ledger) -> None:
    """Whatever the policies are, and on a node that gives nothing."""
    assert await node.admitted(asking("a", "100m")) == ""
    node.admission.hardware = None
    assert await node.admitted(whole("b")) == ""
    assert not ledger.asked


async def test_the_ledger_is_told_who_counts(node: FullNode, ledger: Ledger) -> None:
    """Pods that run or are listed count, also one that is being admitted; those that are over or refused do not."""
    node.running(asking("runs", "100m"))
    node.shows("unlisted", Lifecycle.SYNC)
    node.running(asking("over", "100m"))
    ledger.meanwhile = lambda: node.ends("over")
    ledger.answer = Rejected(UNEXPECTED, "not enough cpus available to satisfy request: requested=1, available=0")
    assert await node.admitted(whole("refused")) == UNEXPECTED
    ledger.answer = None
    assert await node.admitted(whole("first", "100m")) == ""
    assert await node.admitted(whole("next")) == ""
    assert [one.counting for one in ledger.asked] == [("runs", "unlisted"), ("first", "runs", "unlisted")]
    assert ledger.asked[1].pod["metadata"]["uid"] == "next"


async def test_what_runs_is_not_asked_for_again(node: FullNode, ledger: Ledger) -> None:
    """A poller that starts anew finds it there."""
    node.running(whole("a"))
    assert await node.admitted(whole("a")) == ""
    assert not ledger.asked


async def test_devices_are_the_ledgers_to_count(node: FullNode, ledger: Ledger) -> None:
    """A pod that was given devices has them, though the node has fewer healthy ones; a resource whose plugin is gone lacks."""
    amounts = {"cpu": "2", "memory": "1Gi", "example.com/gpu": "0", "example.com/gone": "0"}
    room = {name: parse_quantity(amount) for name, amount in amounts.items()}
    node.node.facts = lambda: NodeFacts("n", allocatable=room)  # type: ignore[method-assign]  # as the API says
    policies = HardwarePolicies(is_device=lambda name: name == "example.com/gpu")
    node.admission.hardware = ExclusiveHardware(policies, ledger.admit)
    for name, reason in (("gpu", ""), ("gone", "OutOfexample.com/gone"), ("elsewhere", "")):
        pod = asking(name, "100m")
        amounts = {f"example.com/{name}": "1"}
        pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        assert await node.admitted(pod) == reason
    assert [one.pod["metadata"]["uid"] for one in ledger.asked] == ["gpu"]
