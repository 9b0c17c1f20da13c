"""A node of `up` and `down` for one test, with its own folders, bridge, cgroup and ports; what its tests do with it."""

import contextlib
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from tests.free_ports import free_ports
from tests.killed_sessions import remove_leftovers
from tests.node.conftest import BUSYBOX
from worker.standalone.down import down, what_is_left
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.machine.process import wait_for_end
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings

POD: Final = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: NAME, namespace: default}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
  - name: main
    image: {BUSYBOX}
    command: [sh, -c, "trap 'exit 0' TERM; sleep 3600 & wait"]
"""


@contextlib.contextmanager
def standalone_node(
    slot: int, node_dir: Path, name: str = "up", given: GivenConfiguration | None = None
) -> Iterator[Settings]:
    """Yield the settings of a node that is not up yet; it is removed after the test. `name` tells it from others of the slot."""
    directory = node_dir / name
    settings = Settings(
        state_dir=directory / "state",
        run_dir=directory / "run",
        hostname_override="n1",
        network=PodNetwork(bridge=f"tpl{name}{slot}", subnet=f"10.215.{slot}.0/24"),
        cgroup=f"/tempolet-{name}-{slot}",
        ports=Ports(*free_ports(3)),
        given_configuration=given or GivenConfiguration(),
    )
    remove_leftovers(settings.containerd)
    try:
        yield settings
    finally:
        down(settings, silent(), purge=True)
        assert what_is_left(settings) == []
        assert not directory.exists() or not any(directory.iterdir())


def silent() -> Progress:
    """Return a progress callback that shows nothing."""
    return Progress(Console(file=io.StringIO()))


def manifest(folder: Path, name: str, text: str = POD) -> Path:
    """Write a manifest."""
    path = folder / f"{name}.yaml"
    path.write_text(text.replace("NAME", name))
    return path


def pids(node: Settings) -> dict[str, int]:
    """Read the PIDs of the node's processes."""
    processes = {"worker": node.worker, "poller": node.poller, "temporal": node.temporal.process}
    processes["containerd"] = node.containerd.process
    return {name: found.pid for name, process in processes.items() if (found := process.running())}


def kill(node: Settings, *names: str) -> None:
    """Kill processes of the node, as a crash would."""
    running = pids(node)
    for name in names:
        os.kill(running[name], signal.SIGKILL)
    for name in names:
        assert wait_for_end(running[name], 10)
