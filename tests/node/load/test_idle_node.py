"""Does a full node write nothing while nothing happens?

Three minutes of it; `TEMPOLET_IDLE_MINUTES=60` makes an hour of it. What was written is printed (`-s`).
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.node_images import read_node_images
from tests.node.away.stopped_temporal import own_temporal
from tests.node.load.writes import Writes, changed, changed_rows, transitions, writes_of
from tests.node.tempolet_node import TempoletNode, pod_manifest, tempolet_node, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

__all__ = ["own_temporal"]  # a fixture
PODS = 110
MINUTES = float(os.environ.get("TEMPOLET_IDLE_MINUTES", "3"))
ALL_STARTED_WITHIN = 1200.0
QUIET_FOR = 60.0
MAY_CHANGE = {"tempolet/images.json", "tempolet/runtime.json"}
"""When the images were last looked at, every five minutes; whether the runtime answers, which a busy machine's may not."""
LOOKED_WITHIN = 600.0
LENIENT = {"periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 10}
"""A busy machine changes no verdict."""


@pytest.fixture
def node(tmp_path: Path, containerd: Containerd, own_temporal: TemporalServer) -> Iterator[TempoletNode]:
    """Run a node that compares as often as one does by default."""
    with tempolet_node(tmp_path, containerd, own_temporal, keys={"syncFrequency": "1m"}) as made:
        try:
            yield made
        finally:
            for manifest in made.manifests.iterdir():
                manifest.unlink()
            made.until(lambda: not made.snapshots(), "every pod gone", ALL_STARTED_WITHIN)


def probed(name: str) -> dict[str, Any]:
    """Build a pod with a readiness and a liveness probe."""
    manifest = pod_manifest(name, "mkdir /www && touch /www/ready && exec httpd -f -p 8080 -h /www")
    manifest["spec"]["containers"][0] |= {
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/ready"}, **LENIENT},
        "livenessProbe": {"tcpSocket": {"port": 8080}, **LENIENT},
    }
    return manifest


def until_images_are_known(node: TempoletNode) -> None:
    """Wait for the next look at the images, which finds out that pods use them now, and says so in a heartbeat."""
    before = read_node_images(node.root_dir)
    node.until(lambda: read_node_images(node.root_dir) != before, "another look at the images", LOOKED_WITHIN)


def until_quiet(node: TempoletNode) -> None:
    """Wait until no workflow has changed for a while."""
    deadline, before = time.monotonic() + ALL_STARTED_WITHIN, wait(transitions(node))
    while time.monotonic() < deadline:
        time.sleep(QUIET_FOR)  # that nothing happens is no event
        if before == (before := wait(transitions(node))):
            return
    raise TimeoutError("workflows change without end")


def told(before: Writes, after: Writes) -> str:
    """Say in words what was written."""
    grown = {role: after.stored[role] - before.stored[role] for role in after.stored}
    shown = {
        "runs that changed (transitions, events)": changed(before.workflows, after.workflows),
        "files": changed(before.files, after.files),
        "rows that went and came": changed_rows(before, after),
        "bytes to the disk": grown,
    }
    return "\n".join(f"{name}: {value}" for name, value in shown.items())


@pytest.mark.stress
def test_a_full_node_writes_nothing_while_nothing_happens(node: TempoletNode) -> None:
    """No state transition of any workflow, nothing in the journal, and no other file of the node."""
    for number in range(PODS):
        node.apply(probed(f"idle-{number}"))
    node.until(lambda: sum(one.ready for one in node.snapshots()) == PODS, "all ready", ALL_STARTED_WITHIN)
    until_images_are_known(node)
    until_quiet(node)
    before = wait(writes_of(node))
    assert len(before.workflows) == PODS + 1, "one for each pod and one for the node"
    assert before.rows["executions"].total() > PODS
    time.sleep(MINUTES * 60)  # the time that the test is about
    after = wait(writes_of(node))
    print(f"after {MINUTES:g} minutes:\n{told(before, after)}")
    assert not changed(before.workflows, after.workflows)
    assert changed(before.files, after.files).keys() <= MAY_CHANGE
    assert sum(one.ready for one in node.snapshots()) == PODS
    assert not sum(one.restarts for one in node.snapshots())
