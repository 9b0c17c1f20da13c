"""A node whose Temporal UI decodes payloads, and the pod that is shown there: three init containers, one crash.

Shared by test_ui and by the documentation's screenshots. It has its own Temporal, since the UI asks the worker of its own node to
decode.
"""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import NAMESPACE
from tests.free_ports import free_ports
from tests.node.containerd_view import container_pid
from tests.node.standalone.browser import Browser
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, wait
from worker.standalone.containerd import Containerd
from worker.standalone.temporal_server import TemporalServer

INIT: Final = ("await-database", "migrate", "warm-cache")
COLUMNS: Final = ("Status", "Workflow ID", "PodPhase", "PodReady", "PodReason", "PodRestarts")
"""Columns of the list, as an operator chooses them."""
CRASHING: Final = """\
trap 'printf "lost the database" > /dev/termination-log; exit 3' USR1
while :; do sleep 3600 & wait $!; done
"""


@contextlib.contextmanager
def shown_node(directory: Path, containerd: Containerd, name: str) -> Iterator[TempoletNode]:
    """Run a node, its codec endpoint and its Temporal; everything is removed afterwards."""
    temporal = TemporalServer(directory / "temporal", directory / "run", free_ports(1)[0])
    codec = {"socket": str(temporal.places.codec)}
    node = TempoletNode(directory / "node", containerd, temporal, name=name, own_keys={"codec": codec})
    with temporal, node:
        yield node


def sign_in(window: Browser, node: TempoletNode) -> None:
    """Open the URL that `tempolet up` prints: from then on the browser has the token."""
    window.show(node.temporal.login, lambda text: "Workflow" in text, "the list, to whom has the token")


def list_url(node: TempoletNode, query: str) -> str:
    """Return the URL of the UI's list for a query."""
    return f"{node.temporal.ui}/namespaces/{NAMESPACE}/workflows?query={quote(query, safe='')}"


def pod_url(node: TempoletNode, pod: PodSnapshot, tab: str) -> str:
    """Return the URL of the UI's page of a pod's workflow."""
    run_id = wait(_run_id(node, pod))
    return f"{node.temporal.ui}/namespaces/{NAMESPACE}/workflows/{quote(pod.workflow_id, safe='')}/{run_id}/{tab}"


def history_url(node: TempoletNode, pod: PodSnapshot) -> str:
    """Return the URL from which the browser gets a pod's history."""
    return f"{node.temporal.ui}/api/v1/namespaces/{NAMESPACE}/workflows/{quote(pod.workflow_id, safe='')}/history"


async def _run_id(node: TempoletNode, pod: PodSnapshot) -> str | None:
    return (await (await node.workflow(pod)).describe()).run_id


def choose_columns(window: Browser, node: TempoletNode) -> None:
    """Add the pods' search attributes to the list's columns, which a user chooses once and the browser remembers."""
    window.show(list_url(node, ""), lambda text: "Workflow ID" in text, "the list")
    columns = json.dumps(json.dumps({NAMESPACE: [{"label": name} for name in COLUMNS]}))
    window.run(f"localStorage.setItem('namespace-workflow-table-columns', {columns})")


def shop_manifest() -> dict[str, Any]:
    """Build a pod with three init containers whose container exits with code 3 on SIGUSR1."""
    init = [{"name": name, "image": BUSYBOX, "command": ["true"]} for name in INIT]
    return pod_manifest("shop", CRASHING, initContainers=init)


def catches(pid: int, number: signal.Signals) -> bool:
    """Report whether a process has a handler: before its shell has set the trap, the first process of a container ignores the signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught & 1 << (number - 1))


def crash(node: TempoletNode, name: str) -> PodSnapshot:
    """Let a running pod's container crash, and wait until it runs again."""
    before = node.until_running(name)
    pid = container_pid(node.containerd, before.containers["main"].container_id)
    node.until(lambda: catches(pid, signal.SIGUSR1), f"{name} catches SIGUSR1")
    os.kill(pid, signal.SIGUSR1)
    return node.until_pod(name, lambda one: one.ready and one.restarts == before.restarts + 1, f"{name} restarted")
