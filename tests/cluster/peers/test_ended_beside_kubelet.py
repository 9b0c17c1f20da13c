"""Does a pod that its node ends end as with the real kubelet: with which phase, reason and conditions, by what its containers exit with?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import NewNode, condition, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import KubeletNode
from tests.node.tempolet_node import BUSYBOX, PATIENCE, pod_manifest
from tests.worker.host.shutdown.small_logind import SmallLogind, own_logind

KEYS: Final = {
    "shutdownGracePeriod": "60s",
    "shutdownGracePeriodCriticalPods": "20s",
    "volumeStatsAggPeriod": "2s",
    "evictionHard": {"memory.available": "100Mi"},  # a full disk ends no pod
}
FILLS: Final = "until [ -e /told/fill ]; do sleep 0.1; done; dd if=/dev/zero of=/data/big bs=1M count=3 2> /dev/null; "
LOST: Final = "ContainerStatusUnknown"
"""What the kubelet says of a container that it cannot find any more when it looks how it ended, as may happen to it on a busy machine."""
TRIES: Final = 5
FINAL: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Both:
    """A node of ours and the real kubelet, which follow one logind."""

    plane: ControlPlane
    logind: SmallLogind
    nodes: tuple[str, str]

    def create(self, name: str, node: str, *codes: int, policy: str, fills: Path | None = None) -> str:
        """Create a pod whose containers exit with these codes when they are stopped; returns its path.

        Its first container fills a disk once there is a file `fill` in the folder `fills`.
        """
        pod = pod_manifest(f"{name}-{self.nodes.index(node)}", nodeName=node, restartPolicy=policy)
        pod["spec"] |= {"terminationGracePeriodSeconds": 30, "automountServiceAccountToken": False}
        pod["spec"]["containers"] = [
            {
                "name": f"c{number}",
                "image": BUSYBOX,
                "command": ["sh", "-c", command(code, fills=bool(fills and not number))],
            }
            for number, code in enumerate(codes)
        ]
        if fills:
            pod["spec"]["volumes"] = [
                {"name": "data", "emptyDir": {"sizeLimit": "1Mi"}},
                {"name": "told", "hostPath": {"path": str(fills), "type": "Directory"}},
            ]
            pod["spec"]["containers"][0]["volumeMounts"] = [
                {"name": name, "mountPath": f"/{name}"} for name in ("data", "told")
            ]
        self.plane.api.create(pods_path(), pod)
        return pods_path(name=str(pod["metadata"]["name"]))

    def until_ready(self, *paths: str) -> None:
        """Wait until all containers run, so that each has an exit code in the end."""
        for path in paths:
            self.plane.api.until(path, lambda one: condition(one, "Ready") == "True", f"{path} Ready", PATIENCE)

    def end_of(self, path: str) -> tuple[Any, ...] | None:
        """Wait until a pod has ended; returns what its status says of that, or None if its node has lost a container of it."""
        pod = self.plane.api.until(path, lambda one: one["status"]["phase"] in FINAL, f"{path} over", PATIENCE)
        status = pod["status"]
        told = sorted(
            (one["type"], one["status"], one.get("reason"), one.get("message"))
            for one in status["conditions"]
            if one["type"] in {"DisruptionTarget", "Ready", "ContainersReady", "Initialized"}
        )
        states = [one["state"] for one in status["containerStatuses"]]
        if LOST in str(status["containerStatuses"]):
            return None
        assert all("terminated" in one for one in states), f"{path}: {status}"
        codes = [one["terminated"]["exitCode"] for one in states]
        return status["phase"], status.get("reason"), status.get("message"), codes, told

    def told_of_shutdowns(self, node: str) -> list[tuple[str, str, str]]:
        """Wait until the node has told that its machine goes down; returns type, reason and message of each such event."""
        path = f"{pods_path().removesuffix('/pods')}/events?fieldSelector=involvedObject.name%3D{node}"
        found = self.plane.api.until(path, shutdowns_in, f"{node} tells of the shutdown", PATIENCE)
        return shutdowns_in(found)


def shutdowns_in(events: Any) -> list[tuple[str, str, str]]:
    """Return the events of shutdowns; the node's namespace has those of nodes, too."""
    told = ((one["type"], one["reason"], one["message"]) for one in events["items"])
    return [one for one in told if one[2].startswith("Shutdown manager ")]


def command(code: int, *, fills: bool) -> str:
    """Write a command that exits with this code when it is stopped."""
    return f"trap 'exit {code}' TERM; {FILLS if fills else ''}sleep 3600 & wait"


@pytest.fixture(scope="module")
def both(
    kubelet_node: KubeletNode,
    plane: ControlPlane,
    new_node: NewNode,
    node_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Both]:
    """Run both."""
    with own_logind(timedelta(minutes=10)) as logind:
        bus = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={logind.bus.path}"}
        with (
            kubelet_node.running(node_dir / "ended", KEYS, bus) as theirs,
            new_node(tmp_path_factory.mktemp("ours"), keys=dict(KEYS), environment=bus) as node,
        ):
            node.until_started()
            for name in (node.name, theirs):
                ready = f"{name} Ready"
                plane.api.until(f"/api/v1/nodes/{name}", lambda one: condition(one, "Ready") == "True", ready, PATIENCE)
            node.until(lambda: logind.held() == 2, "both hold a lock")
            yield Both(plane, logind, (node.name, theirs))


ENDS: Final[dict[str, tuple[str, tuple[int, ...], str]]] = {
    "one-that-succeeds": ("Always", (0,), "Succeeded"),
    "two-that-succeed": ("Never", (0, 0), "Succeeded"),
    "one-of-two-that-fails": ("OnFailure", (0, 7), "Failed"),
}
"""Restart policy, exit codes, and the phase that both nodes show."""


@pytest.mark.parametrize(("policy", "codes", "phase"), ENDS.values(), ids=ENDS)
def test_a_pod_that_fills_a_disk(both: Both, policy: str, codes: tuple[int, ...], phase: str, tmp_path: Path) -> None:
    """It is evicted for an emptyDir, which is no disruption."""
    for number in range(TRIES):
        fills = tmp_path / str(number)
        fills.mkdir()
        paths = [
            both.create(f"fills-{policy.lower()}-{number}", node, *codes, policy=policy, fills=fills)
            for node in both.nodes
        ]
        both.until_ready(*paths)
        (fills / "fill").touch()
        ours, theirs = (both.end_of(path) for path in paths)
        assert ours
        assert ours[0] == phase
        if theirs:
            assert ours == theirs
            return
    pytest.fail(f"the kubelet has lost a container of each of {TRIES} pods")


def test_pods_whose_machine_goes_down(both: Both) -> None:
    """Of each kind one, ended by one shutdown; this is the last test, for neither node takes a pod afterwards."""
    paths = {
        name: [both.create(name, node, *codes, policy=policy) for node in both.nodes]
        for name, (policy, codes, _) in ENDS.items()
    }
    both.until_ready(*(one for two in paths.values() for one in two))
    both.logind.tell(True)
    ended = {name: [both.end_of(path) for path in two] for name, two in paths.items()}
    ours, theirs = ({name: two[node] for name, two in ended.items()} for node in (0, 1))
    assert {name: one and one[0] for name, one in ours.items()} == {name: phase for name, (*_, phase) in ENDS.items()}
    assert any(theirs.values()), "the kubelet has lost a container of each pod"
    assert {name: one for name, one in ours.items() if theirs[name]} == {
        name: one for name, one in theirs.items() if one
    }
