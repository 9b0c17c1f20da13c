"""Is the output of `kubectl describe` for our pods and node the same as for the real kubelet's, on one machine and cluster?

All pods are created at once on both nodes; each test waits until one of them has reached its final state, and compares its output.
"""

import json
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from tests import patience
from tests.cluster.cluster_node import NewNode, condition, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubectl import Kubectl
from tests.cluster.peers.described import Described, alike, read_description
from tests.cluster.peers.described_pods import (
    CASES,
    CLOSED_EARLY,
    GIVEN_UP_EARLY,
    OBJECTS,
    RESIZE,
    RESIZE_TOLD_EARLY,
    RESIZED,
    TOKEN_ASKED_EARLY,
    Case,
)
from tests.cluster.peers.kubelet_node import KubeletNode
from tests.cluster.peers.told_metrics import DOCUMENT, absent, differences, left_out, matching
from tests.free_ports import free_ports
from worker.standalone.containerd import Containerd
from worker.telemetry.exposition import parse_families

OF_INTERFACE: Final = "network.interfaces."
T = TypeVar("T")

PATIENCE: Final = patience.PATIENCE
KEYS: Final = {"evictionHard": {"memory.available": "100Mi"}, "imageGCHighThresholdPercent": 100}
"""A full disk must not evict pods, nor remove their images."""
LOOKS: Final = {"syncFrequency": "2s"}
"""The kubelet reports a crash loop's back-off only when it syncs the pod again, by itself at the end of the back-off."""
OUR_CONDITION: Final = "WorkflowEngineAvailable"
THE_KUBELETS_OWN: Final = {
    "CgroupV1": "says that the kubelet, and not tempolet, will leave cgroup v1",
    "InvalidDiskCapacity": "its first look at a disk that it does not know yet",
    "PossibleMemoryBackedVolumesOnDisk": "on a machine with swap and an old kernel",
    "SystemOOM": "it believes what a process writes into the kernel's log, which a test of our watcher does",
}
"""Reasons of events that its node has and ours has not, and why."""


@dataclass
class Side:
    """One of the two nodes, and the namespace of its pods."""

    plane: ControlPlane
    kubectl: Kubectl
    node: str
    namespace: str
    uids: dict[str, str] = field(default_factory=dict)

    def create(self, case: Case) -> None:
        """Create a case's pod on this node."""
        pod = case.pod()
        made = self.plane.api.create(pods_path(self.namespace), {**pod, "spec": {"nodeName": self.node, **pod["spec"]}})
        self.uids[case.name] = made["metadata"]["uid"]

    def has_come(self, case: Case) -> bool:
        """Return whether a case's pod has reached its final state."""
        return case.stays(self.plane.api.get(pods_path(self.namespace, case.name)))

    def pod(self, case: Case) -> Described:
        """Describe a case's pod, without the known differences."""
        said = self.kubectl.ok("describe", "pod", case.name, "-n", self.namespace)
        return read_description(said, self._names(**{self.uids[case.name]: "UID"})).without(case.apart)

    def itself(self) -> Described:
        """Describe the node, with the events from the API: `kubectl describe` does not find the kubelet's (they have no UID)."""
        said = self.kubectl.ok("describe", "node", self.node)
        version = self.plane.api.get(f"/api/v1/nodes/{self.node}")["status"]["nodeInfo"]["kubeletVersion"]
        names = self._names(**{version: "VERSION"})
        found = self.plane.api.get(f"/api/v1/events?fieldSelector=involvedObject.name%3D{self.node}")["items"]
        events = frozenset(
            (one["type"], one["reason"], one["source"]["component"], alike(one["message"], names)) for one in found
        )
        return Described(read_description(said, names).lines, events)

    def _names(self, **more: str) -> dict[str, str]:
        return {**more, self.node: "NODE", self.namespace: "NAMESPACE"}


@pytest.fixture(scope="module")
def read_only() -> int:
    """Find a port on which the kubelet shows its metrics to anybody; it does not know the API server as a client."""
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def theirs(kubelet_node: KubeletNode, node_dir: Path, read_only: int) -> Iterator[str]:
    """Run the real kubelet; returns its node's name."""
    keys = KEYS | LOOKS | {"readOnlyPort": read_only, "kubeletCgroups": kubelet_node.cgroup}
    with kubelet_node.running(node_dir / "described", keys) as name:
        yield name


@pytest.fixture(scope="module")
def sides(
    theirs: str,
    plane: ControlPlane,
    new_node: NewNode,
    containerd: Containerd,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Side, Side]]:
    """Run our node beside it, and every pod of `described_pods` on both."""
    kubectl = Kubectl(plane.admin_kubeconfig, tmp_path_factory.mktemp("home"))
    keys = {**KEYS, "kubeletCgroups": f"{containerd.cgroup}/agent"}
    with new_node(tmp_path_factory.mktemp("ours"), keys=keys) as node:
        node.until_started()
        found = (Side(plane, kubectl, node.name, "by-us"), Side(plane, kubectl, theirs, "by-them"))
        for side in found:
            plane.make_namespace(side.namespace)
            for plural, made in OBJECTS.items():
                plane.api.create(f"/api/v1/namespaces/{side.namespace}/{plural}", made)
            path = f"/api/v1/nodes/{side.node}"
            plane.api.until(path, lambda one: condition(one, "Ready") == "True", f"{side.node} Ready", PATIENCE)
        for case in CASES:
            for side in found:
                side.create(case)
        yield found


def node_values(summary: Any) -> Iterator[str]:
    """Return the path of each value that /stats/summary has about the node; items of a list by their names."""

    def walk(value: Any, path: str) -> Iterator[str]:
        match value:
            case dict():
                for key, one in value.items():
                    yield from walk(one, f"{path}.{key}")
            case list():
                for one in value:
                    yield from walk(one, f"{path}.{one['name']}")
            case _ if not (".psi." in path or path.endswith(".io.time")):
                yield path.lstrip(".")

    return walk(summary["node"], "")


def until_alike(looks: Callable[[], tuple[T, T] | None]) -> tuple[T, T]:
    """Poll until both are the same, or return the last ones; raises AssertionError if one never reached its final state."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = looks()
        if found and (found[0] == found[1] or time.monotonic() > deadline):
            return found
        assert time.monotonic() < deadline, "not on both nodes in time"
        time.sleep(0.5)  # other processes: there is no event to await


def untold(theirs: Described, *words: str) -> Described:
    """Leave out a node's events whose message has one of these words: it is random whether they occur."""
    kept = frozenset(one for one in theirs.events if not any(word in one[-1] for word in words))
    return replace(theirs, events=kept)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_reads_as_under_the_kubelet(sides: tuple[Side, Side], case: Case) -> None:
    """Every line except times and ids, and every event's type, reason, source and message."""

    def looks() -> tuple[Described, Described] | None:
        if not all(side.has_come(case) for side in sides):
            return None
        ours, theirs = (untold(side.pod(case), TOKEN_ASKED_EARLY, CLOSED_EARLY) for side in sides)
        theirs = untold(theirs, *GIVEN_UP_EARLY)
        return (ours, theirs) if case.reason in ours.reasons & theirs.reasons else None

    ours, theirs = until_alike(looks)
    assert ours.lines == theirs.lines
    assert ours.events == theirs.events


def test_a_resize_reads_as_under_the_kubelet(sides: tuple[Side, Side]) -> None:
    """Granted and completed, with the container's resources."""
    for side in sides:
        side.create(RESIZED)
    for side in sides:
        path = pods_path(side.namespace, RESIZED.name)
        side.plane.api.until(path, RESIZED.stays, f"{RESIZED.name} running on {side.node}")
        side.plane.api.patch(f"{path}/resize", RESIZE)

    def looks() -> tuple[Described, Described] | None:
        ours, theirs = (side.pod(RESIZED) for side in sides)
        theirs = untold(theirs, *GIVEN_UP_EARLY, RESIZE_TOLD_EARLY)
        return (ours, theirs) if RESIZED.reason in ours.reasons & theirs.reasons else None

    ours, theirs = until_alike(looks)
    assert ours.lines == theirs.lines
    assert ours.events == theirs.events


def test_a_node_reads_as_the_kubelets(sides: tuple[Side, Side]) -> None:
    """Labels, conditions, capacity, versions, its pods and their requests; and its events, except what each has alone."""

    def looks() -> tuple[Described, Described]:
        ours, theirs = (side.itself() for side in sides)
        told = frozenset(one for one in theirs.events if one[1] not in THE_KUBELETS_OWN)
        lines = tuple(one for one in ours.lines if OUR_CONDITION not in one)
        return Described(lines, ours.events), Described(theirs.lines, told)

    ours, theirs = until_alike(looks)
    assert ours.lines == theirs.lines
    assert ours.events == theirs.events


@pytest.mark.parametrize("query", [pytest.param("", id="whole"), pytest.param("?only_cpu_and_memory=true", id="brief")])
def test_the_node_is_measured_as_by_the_kubelet(
    sides: tuple[Side, Side], node_ip: str, read_only: int, query: str
) -> None:
    """Of the node itself: the same system containers, disks, devices and limits, and of each the same values.

    Except how long was waited (PSI): a kubelet tells 0 where the kernel does not count it (cgroup v1). Interfaces of other tests
    come and go between the two looks.
    """
    lasting = {name for _, name in socket.if_nameindex()}

    def lasts(value: str) -> bool:
        if not value.startswith(OF_INTERFACE):
            return True
        return value.removeprefix(OF_INTERFACE).rpartition(".")[0] in lasting

    def looks() -> tuple[set[str], set[str]]:
        ours = sides[0].plane.api.get(f"/api/v1/nodes/{sides[0].node}/proxy/stats/summary{query}")
        with urllib.request.urlopen(f"http://{node_ip}:{read_only}/stats/summary{query}", timeout=PATIENCE) as answer:
            theirs = json.load(answer)
        lasting.intersection_update(name for _, name in socket.if_nameindex())
        return set(filter(lasts, node_values(ours))), set(filter(lasts, node_values(theirs)))

    ours, theirs = until_alike(looks)
    assert ours == theirs
    assert bool(query) != any(one.startswith(OF_INTERFACE) for one in ours)
    assert {one.split(".")[1] for one in ours if one.startswith("systemContainers.")} == {"kubelet", "pods"}


def test_metrics_are_the_kubelets(sides: tuple[Side, Side], node_ip: str, read_only: int) -> None:
    """The same families, except those that the documentation names; types, help texts, labels and buckets are the same."""
    for side in sides:
        for case in CASES:
            side.plane.api.until(pods_path(side.namespace, case.name), case.stays, case.name, PATIENCE)
    named, told = left_out(DOCUMENT.read_text()), ["", ""]

    def looks() -> tuple[list[str], list[str]]:
        told[0] = sides[0].plane.api.get(f"/api/v1/nodes/{sides[0].node}/proxy/metrics")
        with urllib.request.urlopen(f"http://{node_ip}:{read_only}/metrics", timeout=PATIENCE) as answer:
            told[1] = answer.read().decode()
        return [one for one in absent(*told) if not any(matching([one], pattern) for pattern in named)], []

    sides[0].plane.api.get(f"/api/v1/nodes/{sides[0].node}/proxy/stats/summary")  # a kubelet measures volumes unasked
    missing, none = until_alike(looks)
    assert missing == none
    ours, theirs = told
    assert [pattern for pattern in named if matching(parse_families(ours), pattern)] == []
    assert list(differences(ours, theirs)) == []
