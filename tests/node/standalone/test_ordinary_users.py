"""Can an ordinary user of the machine, or a pod in the host's network, read a node's secrets or reach its Temporal?

The node is started by `tempolet up`, with a credential in its configuration and one in a manifest. The attackers know
every path, port and pid, as root would list them, and try each.
"""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from activities.files.atomic_files import write_atomically
from proto.temporal.names import NAMESPACE
from tests.node.conftest import BUSYBOX
from tests.node.standalone.standalone_node import silent, standalone_node
from tests.open_files import open_files
from tests.patience import PATIENCE
from tests.unprivileged import as_nobody
from tests.waiting import wait_until
from worker.standalone.gateway.places import FRONTEND_PORT, UI_PORT
from worker.standalone.given_configuration import GivenConfiguration
from worker.standalone.machine import programs
from worker.standalone.machine.process import wait_for_end
from worker.standalone.settings import Settings
from worker.standalone.up import up
from worker.temporal.keys import read_token_file

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
    manifest = tmp_path_factory.mktemp("given") / "holds.yaml"
    manifest.write_text(POD)
    with standalone_node(slot, node_dir, "ordinary", GivenConfiguration(KUBELET)) as settings:
        before = os.umask(0)
        try:
            up(settings, [manifest], silent())
            yield settings
        finally:
            os.umask(before)


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


def test_no_secret_is_in_an_argument_of_any_process(node: Settings) -> None:
    """Everybody reads the arguments of every process."""
    secrets = [CANARY, read_token_file(node.temporal.places.token)]
    assert [pid for pid, line in arguments() if any(one.encode() in line for one in secrets)] == []


def arguments() -> Iterator[tuple[str, bytes]]:
    """Read the arguments of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            yield path.parent.name, path.read_bytes()


def temporal_pids(node: Settings) -> tuple[int, int]:
    """Return the pids of the gateway and of Temporal, its only child."""
    gateway = node.temporal.process.running()
    assert gateway
    return gateway.pid, int(Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text())


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    return {link.removeprefix("socket:[").rstrip("]") for link in open_files(pid) if link.startswith("socket:[")}


def listening(pid: int, network: str = "self") -> set[int]:
    """Return the TCP ports on which a process listens, in the network of another process; by default the machine's."""
    ours = sockets_of(pid)
    return {port for port, inode in listeners(network) if inode in ours}


def listeners(network: str) -> Iterator[tuple[int, str]]:
    """List the TCP ports on which anybody listens in the network of a process, each with its socket's inode."""
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{network}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                yield int(fields[1].rpartition(":")[2], 16), fields[9]


def test_temporal_is_in_no_network_of_the_machine(node: Settings) -> None:
    """It listens where only the gateway is; on the machine there is the UI's door and nothing else, not even by an abstract name."""
    gateway, temporal = temporal_pids(node)
    assert listening(temporal) == set()
    assert listening(temporal, str(temporal)) >= {FRONTEND_PORT, UI_PORT}
    assert listening(gateway) == {node.ports.ui}
    links = Path(f"/proc/{temporal}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in links] == ["lo"]
    names = Path("/proc/self/net/unix").read_text().splitlines()[1:]
    ours = sockets_of(gateway) | sockets_of(temporal)
    assert [line for line in names if line.split()[6] in ours and line.split()[-1].startswith("@")] == []


ATTACK: Final = """
for pid in $PIDS; do
  cat /proc/$pid/environ >/dev/null 2>&1 && echo environment of $pid
  ls /proc/$pid/root/ >/dev/null 2>&1 && echo files of $pid
  for open in $(ls -d /proc/$pid/fd/* 2>/dev/null); do readlink $open >/dev/null 2>&1 && echo $open; done
  nsenter --net=/proc/$pid/ns/net true 2>/dev/null && echo network of $pid
done
for port in $PORTS; do nc -w 2 127.0.0.1 $port </dev/null >/dev/null 2>&1 && echo port $port; done
for path in / /login /api/v1/namespaces /api/v1/namespaces/tempolet/workflows /codec/decode; do
  for who in "" tempolet: tempolet:tempolet :; do
    wget -q -T 5 -O - "http://$who${who:+@}127.0.0.1:$UI$path" 2>/dev/null && echo page $path as "$who"
  done
done
for at in 127.0.0.1 0.0.0.0 localhost; do wget -T 5 -O - http://$at:$UI/ 2>&1 | grep -q "401 Unauthorized" && echo door; done
echo end
"""
"""Answers one line for each thing that was reached, three times that the door asks for the token, and `end`."""
REPELLED: Final = ["door", "door", "door", "end"]


def attack_words(node: Settings) -> dict[str, str]:
    """Return the variables of the attack."""
    agents = [process.running() for process in (node.worker, node.poller)]
    pids = [*temporal_pids(node), *(one.pid for one in agents if one)]
    temporal = temporal_pids(node)[1]
    ours = sockets_of(temporal)
    taken = {port for port, inode in listeners("self") if inode not in ours}  # by another program, perhaps a test's
    ports = listening(temporal, str(temporal)) - taken
    return {name: " ".join(map(str, values)) for name, values in (("PIDS", pids), ("PORTS", ports))} | {
        "UI": str(node.ports.ui)
    }


def open_ports(ports: str) -> str:
    """Connect to ports of loopback; returns a line for each that is open."""
    reached = []
    for port in map(int, ports.split()):
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                reached.append(f"port {port}\n")
    return "".join(reached)


def test_an_ordinary_user_does_not_reach_temporal(node: Settings) -> None:
    """Neither its network, nor what belongs to its processes, nor the UI."""

    def attack() -> str:
        done = subprocess.run(["sh", "-c", ATTACK], env=os.environ | words, capture_output=True, text=True, check=False)
        return open_ports(words["PORTS"]) + done.stdout

    words = attack_words(node)
    with as_nobody(attack) as said:
        assert said.splitlines() == REPELLED


def test_root_in_a_pod_of_the_hosts_network_does_not_reach_temporal(node: Settings) -> None:
    """It also sees the host's processes, and has the capabilities of an ordinary container."""
    variables = [{"name": name, "value": value} for name, value in attack_words(node).items()]
    container: dict[str, Any] = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", ATTACK], "env": variables}
    container["securityContext"] = {"runAsUser": 0}
    spec = {"hostNetwork": True, "hostPID": True, "restartPolicy": "Never", "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "attacks"}, "spec": spec}
    write_atomically(node.manifests / "attacks.json", json.dumps(pod).encode())
    said = logged_to_the_end(node.logs / "pods")
    assert said == REPELLED


def logged_to_the_end(logs: Path) -> list[str]:
    """Wait until the attacking pod has logged `end`, and return its lines."""

    def lines() -> list[str]:
        logged = [path.read_text().splitlines() for path in logs.glob("default_attacks-n1_*/main/0.log")]
        said = [line.split(" ", 3)[3] for one in logged for line in one]
        return said if said[-1:] == ["end"] else []

    return wait_until(lines, "the attacking pod has ended")


def test_worker_and_poller_find_a_temporal_that_was_killed(node: Settings, tmp_path: Path) -> None:
    """It ends with the gateway, and both are there again with the next `up`, with another token."""
    gateway, temporal = temporal_pids(node)
    agents, token = (node.worker.running(), node.poller.running()), read_token_file(node.temporal.places.token)
    os.kill(gateway, signal.SIGKILL)
    assert wait_for_end(gateway, PATIENCE)
    assert wait_for_end(temporal, PATIENCE)
    manifest = tmp_path / "later.yaml"
    manifest.write_text(POD.replace("name: holds", "name: later"))
    assert up(node, [manifest], silent()) == []
    assert (node.worker.running(), node.poller.running()) == agents
    assert read_token_file(node.temporal.places.token) != token


def answer_of(request: urllib.request.Request) -> str:
    """Read an answer of the UI, which says 503 until it has found the Temporal that was just started."""

    def answer() -> str:
        try:
            with urllib.request.urlopen(request) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return ""

    return wait_until(answer, "the UI answers")


def test_whoever_has_the_token_sees_the_ui(node: Settings) -> None:
    """By the URL that `up` prints, which is made anew at each start."""
    page = f"{node.temporal.ui}/api/v1/namespaces/tempolet/workflows"
    token = base64.b64encode(f"x:{read_token_file(node.temporal.places.token)}".encode()).decode()
    request = urllib.request.Request(page, headers={"Authorization": f"Basic {token}"})
    assert "pod/n1/default/holds-n1/" in answer_of(request)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(page)


def test_the_temporal_command_reads_histories(node: Settings) -> None:
    """By the socket, and with the UI's door as its codec endpoint; the token is in no argument. A ticket stays sealed."""
    endpoint = node.temporal.login.removesuffix("/login") + "/codec"
    places = {"TEMPORAL_ADDRESS": node.temporal.address, "TEMPORAL_CODEC_ENDPOINT": endpoint}
    program = programs.find_program(programs.TEMPORAL)

    def told(*words: str) -> str:
        argv = [str(program), "workflow", *words, "--namespace", NAMESPACE]
        return subprocess.run(argv, env=os.environ | places, capture_output=True, text=True, check=True).stdout

    listed = json.loads(told("list", "--query", "PodName = 'holds-n1'", "--output", "json"))
    workflow_id = listed[0]["execution"]["workflowId"]
    shown = told("show", "--workflow-id", workflow_id, "--output", "json")
    opened = [base64.b64decode(one).decode(errors="replace") for one in re.findall(r'"data": "([^"]*)"', shown)]
    assert any(BUSYBOX in one for one in opened)
