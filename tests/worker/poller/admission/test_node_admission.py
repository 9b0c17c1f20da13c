"""Beside which pods is a new one judged: those admitted and not ended, also after a restart?"""

from dataclasses import replace
from pathlib import Path

import pytest

from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.node_pressure import write_node_pressure
from proto.temporal.pod import Lifecycle
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.admission.full_node import FullNode, asking
from tests.worker.poller.snapshots import snapshot, write
from worker.poller.admission.under_pressure import UnderPressure


@pytest.fixture
def node(tmp_path: Path) -> FullNode:
    """Return a node of a cluster without pods."""
    return FullNode(tmp_path)


async def test_what_was_taken_counts_and_what_was_refused_does_not(node: FullNode) -> None:
    """Until it is listed no more."""
    assert await node.admitted(asking("a")) == ""
    assert await node.admitted(asking("b")) == "OutOfcpu"
    assert await node.admitted(asking("c", "500m")) == ""
    del node.present["a"]
    assert await node.admitted(asking("d")) == ""


@pytest.mark.parametrize(
    ("phase", "lifecycle", "reason"),
    [
        pytest.param("Running", Lifecycle.SYNC, "OutOfcpu", id="it-runs"),
        pytest.param("Running", Lifecycle.TERMINATING, "OutOfcpu", id="it-goes"),
        pytest.param("Succeeded", Lifecycle.TERMINATED, "", id="it-is-over"),
    ],
)
async def test_a_pod_that_was_there_before_the_poller_counts_while_it_is_not_over(
    node: FullNode, tmp_path: Path, phase: str, lifecycle: Lifecycle, reason: str
) -> None:
    """Its snapshot tells."""
    node.present["old"] = asking("old")
    write(tmp_path, replace(snapshot("old"), phase=phase, lifecycle=lifecycle))
    assert await node.admitted(asking("new")) == reason


async def test_a_pod_is_not_judged_beside_itself(node: FullNode) -> None:
    """A start that did not arrive is made again."""
    for _ in range(2):
        assert await node.admitted(asking("a")) == ""


@pytest.mark.parametrize(("newer", "reason"), [("a", ""), ("b", "NodeAffinity")], ids=["it-came", "it-did-not"])
async def test_a_label_that_the_scheduler_saw_first_is_looked_for(node: FullNode, newer: str, reason: str) -> None:
    """The watch may lag behind."""
    node.node.newer = {"zone": newer}
    assert await node.admitted(asking("a", nodeSelector={"zone": "a"})) == reason


async def test_what_cannot_be_run_and_what_cannot_be_judged(node: FullNode) -> None:
    """A static pod's fields were judged with its manifest; a mistake of ours refuses one pod and no other."""
    lacking = asking("a", "1", volumes=[{"name": "v", "flexVolume": {}}])
    assert await node.admitted(lacking) == "PodFeatureUnsupported"
    assert await node.admitted(asking("b", "1"), static=True) == ""
    assert await node.admitted(asking("c", "no amount")) == "UnexpectedAdmissionError"


async def test_of_several_reasons_the_kubelets_first_one_counts(tmp_path: Path, node: FullNode) -> None:
    """Each in its turn, until nothing is left against the pod."""
    pod = asking("a", "3", volumes=[{"name": "v", "flexVolume": {}}], os={"name": "windows"})
    pod["spec"]["securityContext"] = {
        "sysctls": [{"name": "kernel.sem", "value": "1"}],
        "appArmorProfile": {"type": "RuntimeDefault"},
    }
    write_node_pressure(tmp_path, ["DiskPressure"])
    reasons = [await node.admitted(pod)]
    write_node_pressure(tmp_path, [])
    reasons.append(await node.admitted(pod))
    spec = pod["spec"]
    for holder, taken_back in (
        (spec["securityContext"], "sysctls"),
        (spec, "os"),
        (spec["containers"][0], "resources"),
        (spec, "securityContext"),
        (spec, "volumes"),
    ):
        del holder[taken_back]
        reasons.append(await node.admitted(pod))
    assert reasons == [
        *("Evicted", "SysctlForbidden", "PodOSNotSupported", "OutOfcpu", "AppArmor", "PodFeatureUnsupported", "")
    ]


async def test_what_runs_stays_admitted_whatever_the_machine_can_do_now(node: FullNode) -> None:
    """A sysctl is allowed no longer, and the poller does not know yet that the pod's workflow is open."""
    old = asking("old", securityContext={"sysctls": [{"name": "kernel.sem", "value": "1"}]})
    node.running(old)
    assert await node.admitted(old) == ""


async def test_a_node_under_pressure_refuses_first(tmp_path: Path, node: FullNode) -> None:
    """In the kubelet's words, until the worker says that it is over; a pod with requests is not refused for memory."""
    best_effort = asking("a", "0")
    best_effort["spec"]["containers"][0].pop("resources", None)
    write_node_pressure(tmp_path, ["MemoryPressure"])
    why = await node.admission.admit(best_effort)
    assert why == Rejected("Evicted", "The node had condition: [MemoryPressure]. ")
    assert await node.admitted(asking("b", "500m")) == ""
    write_node_pressure(tmp_path, ["DiskPressure"])
    assert await node.admitted(asking("c", "500m")) == "Evicted"
    write_node_pressure(tmp_path, [])
    assert await node.admission.admit(best_effort) is None


@pytest.mark.parametrize(
    ("alone", "source", "refused"),
    [
        pytest.param(False, "file", False, id="a-static-pod-in-a-cluster-is-critical"),
        pytest.param(True, "file", True, id="on-a-node-alone-it-is-not"),
    ],
)
async def test_static_pods_under_pressure(tmp_path: Path, alone: bool, source: str, refused: bool) -> None:
    """On a node alone, where every pod is static, only those of the system are admitted."""
    write_node_pressure(tmp_path, ["DiskPressure"])
    static = asking("a", "500m")
    static["metadata"]["annotations"] = {SOURCE_ANNOTATION: source}
    assert bool(UnderPressure(tmp_path, alone=alone).why_refused(static)) is refused
