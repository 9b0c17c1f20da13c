"""Beside which pods is a new one judged: those admitted and not ended, also after a restart?"""

from dataclasses import replace
from pathlib import Path

import pytest

from proto.kubernetes.resources.quantity import parse_quantity
from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.node_pressure import write_node_pressure
from proto.temporal.pod import Lifecycle, PodJson
from proto.temporal.pod_inputs import Rejected
from tests.worker.poller.snapshots import snapshot, write
from worker.poller.cluster.node_admission import NodeAdmission
from worker.poller.runtime.known_pods import KnownPods
from worker.poller.runtime.under_pressure import UnderPressure
from worker.settings.kubelet.feature_gates import FeatureGates
from workflows.decide.node.node_admission import NodeFacts

CPU = "1500m"


def asking(uid: str, cpu: str = CPU, **spec: object) -> PodJson:
    """Write a pod that lists most of the node."""
    container = {"name": "c", "image": "busybox:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": {"containers": [container], **spec}}


class Node:
    """A node of two cpus, whose label comes with the second look."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.newer: dict[str, str] = {}

    async def read(self) -> None:
        """Look again."""
        self.labels = self.newer

    def facts(self) -> NodeFacts:
        """Say what is known."""
        return NodeFacts("n", labels=self.labels, allocatable={"cpu": parse_quantity("2")})


@pytest.fixture
def present() -> dict[str, PodJson]:
    """Return the pods that are desired here, for the test to change."""
    return {}


@pytest.fixture
def node() -> Node:
    """Return the Node."""
    return Node()


@pytest.fixture
def admission(tmp_path: Path, node: Node, present: dict[str, PodJson]) -> NodeAdmission:
    """Make one as a poller that has just started has."""
    under_pressure = UnderPressure(tmp_path, alone=False).why_refused
    return NodeAdmission(node, KnownPods(tmp_path, "n"), FeatureGates(), lambda: present, under_pressure=under_pressure)


async def admitted(admission: NodeAdmission, present: dict[str, PodJson], pod: PodJson, *, static: bool = False) -> str:
    """Judge a pod that is listed; answers the reason against it."""
    present[pod["metadata"]["uid"]] = pod
    why = await admission.admit(pod, static=static)
    return why.reason if why else ""


async def test_what_was_taken_counts_and_what_was_refused_does_not(
    admission: NodeAdmission, present: dict[str, PodJson]
) -> None:
    """Until it is listed no more."""
    assert await admitted(admission, present, asking("a")) == ""
    assert await admitted(admission, present, asking("b")) == "OutOfcpu"
    assert await admitted(admission, present, asking("c", "500m")) == ""
    del present["a"]
    assert await admitted(admission, present, asking("d")) == ""


@pytest.mark.parametrize(
    ("phase", "lifecycle", "reason"),
    [
        pytest.param("Running", Lifecycle.SYNC, "OutOfcpu", id="it-runs"),
        pytest.param("Running", Lifecycle.TERMINATING, "OutOfcpu", id="it-goes"),
        pytest.param("Succeeded", Lifecycle.TERMINATED, "", id="it-is-over"),
    ],
)
async def test_a_pod_that_was_there_before_the_poller_counts_while_it_is_not_over(
    admission: NodeAdmission, present: dict[str, PodJson], tmp_path: Path, phase: str, lifecycle: Lifecycle, reason: str
) -> None:
    """Its snapshot tells."""
    present["old"] = asking("old")
    write(tmp_path, replace(snapshot("old"), phase=phase, lifecycle=lifecycle))
    assert await admitted(admission, present, asking("new")) == reason


async def test_a_pod_is_not_judged_beside_itself(admission: NodeAdmission, present: dict[str, PodJson]) -> None:
    """A start that did not arrive is made again."""
    for _ in range(2):
        assert await admitted(admission, present, asking("a")) == ""


@pytest.mark.parametrize(("newer", "reason"), [("a", ""), ("b", "NodeAffinity")], ids=["it-came", "it-did-not"])
async def test_a_label_that_the_scheduler_saw_first_is_looked_for(
    admission: NodeAdmission, present: dict[str, PodJson], node: Node, newer: str, reason: str
) -> None:
    """The watch may lag behind."""
    node.newer = {"zone": newer}
    assert await admitted(admission, present, asking("a", nodeSelector={"zone": "a"})) == reason


async def test_what_cannot_be_run_and_what_cannot_be_judged(
    admission: NodeAdmission, present: dict[str, PodJson]
) -> None:
    """A static pod's fields were judged with its manifest; a mistake of ours refuses one pod and no other."""
    claims = asking("a", "1", resourceClaims=[{"name": "x"}])
    assert await admitted(admission, present, claims) == "PodFeatureUnsupported"
    assert await admitted(admission, present, asking("b", "1"), static=True) == ""
    assert await admitted(admission, present, asking("c", "no amount")) == "UnexpectedAdmissionError"


async def test_a_node_under_pressure_refuses_first(
    tmp_path: Path, admission: NodeAdmission, present: dict[str, PodJson]
) -> None:
    """In the kubelet's words, until the worker says that it is over; a pod with requests is not refused for memory."""
    best_effort = asking("a", "0")
    best_effort["spec"]["containers"][0].pop("resources", None)
    write_node_pressure(tmp_path, ["MemoryPressure"])
    why = await admission.admit(best_effort)
    assert why == Rejected("Evicted", "The node had condition: [MemoryPressure]. ")
    assert await admitted(admission, present, asking("b", "500m")) == ""
    write_node_pressure(tmp_path, ["DiskPressure"])
    assert await admitted(admission, present, asking("c", "500m")) == "Evicted"
    write_node_pressure(tmp_path, [])
    assert await admission.admit(best_effort) is None


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
    assert bool(await UnderPressure(tmp_path, alone=alone).admit(static, static=True)) is refused
