"""Does real memory pressure end the right pod in time, with the kernel's OOM killer idle, and do the commands say why?

The pods of the node may use 1 GiB together, and are under pressure from half of it on: then it makes no difference how large the
machine is, and what else it does. On a booted machine of 2 GiB: `tests/machine/pressure`.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from proto.node_pressure import read_node_pressure
from proto.pod_snapshot import PodSnapshot
from tests.node.operating import history, tempolet
from tests.node.pod_story import story
from tests.node.pressure.limited_node import MI, MOST, limited_node
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer
from worker.stats.cgroups.usage import CgroupReader
from worker.stats.node_stats import reader_of

THRESHOLD: Final = 512
LEAST: Final = f"{THRESHOLD}Mi"
LEFT: Final = THRESHOLD - 10 * 50
"""MiB that are left at least, if the pod that fills 50 MiB a second ends within 10 s of the threshold. Seconds are no measure beside other tests: they slow both down."""
FILL: Final = (
    """awk 'BEGIN { for (;;) { for (i = 0; i < 5; i++) held[n++] = sprintf("%1048576s", ""); system("sleep 0.1") } }'"""
)
"""Fills memory at nearly 50 MiB a second."""
HOLD: Final = """exec awk 'BEGIN {{ while (n < {0}) held[n++] = sprintf("%1048576s", ""); system("touch /tmp/held; exec sleep 3600") }}'"""


@dataclass
class Watched:
    """What is left for the pods, looked at 20 times a second from a thread of its own."""

    reader: CgroupReader
    cgroup: str
    crossed: float = 0.0
    """When less than the threshold was left for the first time."""
    relieved: float = 0.0
    """When it was no longer so."""
    least: int = MOST * MI
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watched":
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            found = self.reader.cpu_and_memory(self.cgroup)
            if found is None:
                continue
            left = MOST * MI - found.working_set
            self.least = min(self.least, left)
            if left < THRESHOLD * MI:
                self.crossed = self.crossed or time.monotonic()
            elif self.crossed:
                self.relieved = self.relieved or time.monotonic()


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node whose pods are short of memory from 512 MiB on."""
    with limited_node(tmp_path / "node", containerd, temporal, THRESHOLD) as made:
        made.until_started()
        yield made


def holding(name: str, mebibytes: int, **requests: str) -> dict[str, Any]:
    """Build a pod that is ready once it holds so much memory."""
    manifest = pod_manifest(name, HOLD.format(mebibytes))
    container = manifest["spec"]["containers"][0]
    container["resources"] = {"requests": requests}
    container["readinessProbe"] = {"exec": {"command": ["test", "-e", "/tmp/held"]}, "periodSeconds": 1}
    return manifest


def test_the_pod_that_fills_memory_ends_in_time(node: TempoletNode) -> None:
    """Although another one uses more, which it has asked for; both are told of truly."""
    node.apply(holding("modest", 300, memory="340Mi"))
    modest = node.until_running("modest")
    reader, cgroup = reader_of(Hierarchies.of_this_node()), f"{node.containerd.cgroup}/kubepods"
    with Watched(reader, cgroup) as watched:
        node.apply(pod_manifest("filler", FILL))
        filler = node.until_pod("filler", lambda one: one.lifecycle == "terminated", "the filler is down")
        down = time.monotonic()
        node.until(lambda: watched.relieved, "there is memory again")
    ended = watched.relieved - watched.crossed
    print(
        f"ended {ended:.2f} s after the threshold, known as down after {down - watched.crossed:.2f} s, {watched.least // MI} MiB were left at least"
    )
    assert watched.least >= LEFT * MI
    usage = reader.usage(cgroup)
    assert usage is not None
    assert usage.oom_kills == 0
    assert (filler.phase, filler.reason) == ("Failed", "Evicted")
    assert filler.status["message"].startswith(
        f"The node was low on resource: memory. Threshold quantity: {LEAST}, available: "
    )
    node.until(lambda: read_node_pressure(node.root_dir) == set(), "the pressure is over")
    _is_told(node, filler, modest)
    node.until(lambda: "MemoryPressure begins: " in tempolet(node, "images")[1], "the node's workflow is told")


def _is_told(node: TempoletNode, filler: PodSnapshot, modest: PodSnapshot) -> None:
    chosen = "this pod because it uses "
    told = story(node, filler)
    assert any(f"the node chose {chosen}" in one and "of memory, more than it requests" in one for one in told), told
    assert any("the next would have been default/modest" in one for one in told), told
    assert chosen in _explained(node, filler)
    now = node.pod("modest")
    assert now is not None
    assert (now.phase, now.ready, now.containers) == ("Running", True, modest.containers)
    assert "Running" in _explained(node, modest)
    for words in (_explained(node, modest), history(node, modest)):
        assert "evict" not in words.lower(), "nothing was done to it, and nothing is said of it"


def _explained(node: TempoletNode, pod: PodSnapshot) -> str:
    code, explained = tempolet(node, "explain", f"{pod.namespace}/{pod.name}")
    assert code == 0, explained
    return " ".join(explained.split())
