"""Does an ordinary user of the machine read nothing of a node that `tempolet up` started?

The node has a credential in its configuration and one in a manifest. The user knows every path, as a listing by root
would show it, and tries each.
"""

import io
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from rich.console import Console

from tests.node.conftest import BUSYBOX
from tests.unprivileged import as_nobody
from worker.standalone.containerd_config import PodNetwork
from worker.standalone.down import down, what_is_left
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.progress import Progress
from worker.standalone.settings import Ports, Settings
from worker.standalone.temporal_server import free_ports
from worker.standalone.up import up

CANARY: Final = "cAnArY-91b7d20e"
POD: Final = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: holds, namespace: default}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: {BUSYBOX}
    command: [sh, -c, "echo $TOKEN; exec sleep 3600"]
    env: [{{name: TOKEN, value: {CANARY}}}]
"""
KUBELET: Final = {
    "staticPodURL": "http://127.0.0.1:9/pods",
    "staticPodURLHeader": {"Authorization": [f"Bearer {CANARY}"]},
}


@pytest.fixture(scope="module")
def node(slot: int, node_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Run a node as the operator of a machine with an open umask does."""
    directory = node_dir / "ordinary"
    settings = Settings(
        state_dir=directory / "state",
        run_dir=directory / "run",
        hostname_override="n1",
        network=PodNetwork(bridge=f"tplord{slot}", subnet=f"10.215.{slot}.0/24"),
        cgroup=f"/tempolet-ordinary-{slot}",
        ports=Ports(*free_ports(5)),
        given_configuration=GivenConfiguration(KUBELET),
    )
    manifest = tmp_path_factory.mktemp("given") / "holds.yaml"
    manifest.write_text(POD)
    before = os.umask(0)
    silent = Progress(Console(file=io.StringIO()))
    try:
        up(settings, [manifest], silent)
        yield settings
    finally:
        os.umask(before)
        down(settings, silent, purge=True)
        assert what_is_left(settings) == []


def files_of(node: Settings) -> Iterator[Path]:
    """List every file and socket of the node but containerd's, where an image's files are as its maker set them."""
    containerds = (node.state_dir / "containerd", node.run_dir / "containerd")
    for top in (node.state_dir, node.run_dir):
        for folder, below, names in os.walk(top):
            below[:] = [one for one in below if Path(folder, one) not in containerds]
            yield from (Path(folder, name) for name in names)


def opened_by_nobody(paths: list[Path]) -> list[str]:
    """Try to open each file and to connect to each socket as an ordinary user; returns those that let it."""
    kinds = {path: path.lstat().st_mode for path in paths}

    def attack() -> str:
        return "\n".join(str(path) for path, kind in kinds.items() if lets_in(path, kind))

    with as_nobody(attack) as said:
        return said.split()


def lets_in(path: Path, kind: int) -> bool:
    """Return whether this process can open a file or connect to a socket."""
    try:
        if stat.S_ISSOCK(kind):
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(path))
        else:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except PermissionError:
        return False
    return True


NEEDLESS: Final = (".pid", "containerd.toml", ".conflist")
"""Ends of the names of files without anything private: an ordinary user sees the same in /proc and in the network."""


def test_no_file_and_no_socket_of_a_node_lets_an_ordinary_user_in(node: Settings) -> None:
    """Configuration, manifests, logs, keys, database, the node's folder, and containerd's sockets."""
    files = list(files_of(node))
    held = [path for path in files if path.is_file() and CANARY.encode() in path.read_bytes()]
    names = {path.name for path in held}
    assert {"settings.json", "kubelet.yaml", "holds.yaml", "0.log"} <= names, "the attack knows where to look"
    private = [path for path in files if not path.name.endswith(NEEDLESS) and "addresses" not in path.parts]
    assert len(private) > 20
    assert opened_by_nobody(private) == []
