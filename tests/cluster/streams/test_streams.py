"""Do logs, exec, attach, cp and port-forward of the real kubectl work through the API server, and leave nothing behind?"""

import hashlib
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster_node import ClusterNode, listening_at
from tests.cluster.kubectl import WITHIN, Kubectl
from tests.node.pod_story import log_lines
from tests.node.tempolet_node import BUSYBOX, PATIENCE, pod_manifest

MIB = 1 << 20
PORTS = (8080, 8081)
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
SERVER = "nc -lk -p 8080 -e cat || nc -ll -p 8080 -e cat"
"""An echo server for many connections; its options differ between builds of busybox."""
WORDS = {"main": ["err", "out"], "other": ["other"], "side": ["beside"]}
"""What the containers of `web` print at once, in any order."""


def container(name: str, command: str, **more: Any) -> dict[str, Any]:
    """Build a busybox container."""
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", command], **more}


def says(log: Path, expected: list[str]) -> bool:
    """Return whether a container has printed this, in any order: stdout and stderr are independent."""
    return sorted(log_lines(log)) == expected


def first_status(pod: Any) -> Any:
    """Return the status of a pod's first container."""
    return next(iter(pod["status"].get("containerStatuses") or ()), {})


@pytest.fixture(params=[pytest.param({}, id="websocket"), pytest.param(SPDY, id="spdy")])
def speaking(kubectl: Kubectl, request: pytest.FixtureRequest) -> Kubectl:
    """Return a kubectl that uses WebSocket or SPDY with the API server, which uses SPDY with the node."""
    return replace(kubectl, environment=request.param)


@pytest.fixture(scope="module")
def web(cluster_node: ClusterNode) -> str:
    """Run one pod for the tests that do not change it."""
    spec: dict[str, Any] = {"automountServiceAccountToken": False}
    spec["initContainers"] = [
        container("first", "echo begun"),
        container("side", "echo beside; sleep 3600", restartPolicy="Always"),
    ]
    spec["containers"] = [
        container("main", "echo out; echo err >&2; sleep 3600"),
        container("other", "echo other; sleep 3600"),
        container("shell", "cat", stdin=True, tty=True),
        container("pipe", "while read -r line; do echo got $line; done; sleep 3600", stdin=True),
        *(
            container(f"echo{port}", SERVER.replace("8080", str(port)), startupProbe=listening_at(port))
            for port in PORTS
        ),
    ]
    uid = cluster_node.create_pod(pod_manifest("web", **spec))["metadata"]["uid"]
    cluster_node.until_pod_ready("web")
    for name, expected in WORDS.items():
        log = cluster_node.logs / f"default_web_{uid}" / name / "0.log"
        cluster_node.until(partial(says, log, expected), f"{name} says {expected}")
    return "web"


def test_logs_are_shown(kubectl: Kubectl, web: str) -> None:
    """Of every kind of container, with kubectl's options."""
    assert sorted(kubectl.ok("logs", web, "-c", "main").split()) == ["err", "out"]
    assert kubectl.ok("logs", web, "-c", "first") == "begun\n"
    assert len(kubectl.ok("logs", web, "-c", "main", "--tail=1").split()) == 1
    assert kubectl.ok("logs", web, "-c", "main", "--limit-bytes=2") in {"ou", "er"}
    stamped = kubectl.ok("logs", web, "-c", "other", "--timestamps").split()
    assert stamped[1] == "other"
    assert stamped[0].endswith("Z")


def test_a_log_is_followed_to_its_end(kubectl: Kubectl, cluster_node: ClusterNode) -> None:
    """`kubectl logs -f` ends when the container exits."""
    cluster_node.create_pod(
        pod_manifest(
            "counting",
            "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done",
            automountServiceAccountToken=False,
            restartPolicy="Never",
        )
    )
    cluster_node.until_api_pod("counting", lambda pod: pod["status"].get("phase") in {"Running", "Succeeded"})
    assert kubectl.ok("logs", "-f", "counting").split() == ["1", "2", "3", "4", "5"]
    cluster_node.until_api_pod("counting", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert kubectl.ok("logs", "counting", "--tail=1") == "5\n"


def test_a_static_pod_is_reached_by_its_mirror(kubectl: Kubectl, cluster_node: ClusterNode) -> None:
    """The API knows it by another UID than the node."""
    cluster_node.apply(pod_manifest("static", "echo static; sleep 3600"))
    name = f"static-{cluster_node.name}"
    cluster_node.until_pod_ready(name)
    cluster_node.until(lambda: kubectl.ok("logs", name) == "static\n", "its log")
    assert kubectl.ok("exec", name, "--", "echo", "here") == "here\n"


def test_a_sidecar_is_reached(kubectl: Kubectl, web: str) -> None:
    """An init container with restartPolicy Always."""
    assert kubectl.ok("logs", web, "-c", "side") == "beside\n"
    assert kubectl.ok("exec", web, "-c", "side", "--", "echo", "here") == "here\n"


def test_a_pod_whose_container_waits_has_no_log_and_says_why(kubectl: Kubectl, cluster_node: ClusterNode) -> None:
    """The kubelet's 400."""
    waits = pod_manifest("waits", automountServiceAccountToken=False)
    waits["spec"]["containers"][0] |= {"image": "localhost/never:1", "imagePullPolicy": "Never"}
    cluster_node.create_pod(waits)
    reason = "ErrImageNeverPull"
    cluster_node.until_api_pod(
        "waits", lambda pod: first_status(pod).get("state", {}).get("waiting", {}).get("reason") == reason
    )
    ended = kubectl("logs", "waits")
    assert ended.code == 1
    assert f'(BadRequest): container "main" in pod "waits" is waiting to start: {reason}' in ended.err


def test_a_run_before_is_shown(kubectl: Kubectl, cluster_node: ClusterNode) -> None:
    """`kubectl logs --previous`."""
    once = "if [ -e /v/done ]; then echo second; sleep 3600; fi; echo first; touch /v/done; exit 1"
    again = pod_manifest("again", once, automountServiceAccountToken=False, volumes=[{"name": "v", "emptyDir": {}}])
    again["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    cluster_node.create_pod(again)
    cluster_node.until_api_pod("again", lambda pod: first_status(pod).get("restartCount") == 1)
    cluster_node.until_pod_ready("again")
    assert kubectl.ok("logs", "again", "--previous") == "first\n"
    cluster_node.until(lambda: kubectl.ok("logs", "again") == "second\n", "the second run's log")


def test_a_command_runs_with_its_streams_apart_and_its_exit_code(speaking: Kubectl, web: str) -> None:
    """`kubectl exec`."""
    ended = speaking("exec", "-i", web, "-c", "main", "--", "sh", "-c", "cat; echo wrong >&2; exit 7", stdin=b"in")
    assert (ended.code, ended.text) == (7, "in")
    assert ended.err.splitlines() == ["wrong", "command terminated with exit code 7"]


def test_a_command_that_is_not_there_is_told_of(speaking: Kubectl, web: str) -> None:
    """By the runtime, over the open stream."""
    ended = speaking("exec", web, "-c", "main", "--", "/no/such/command")
    assert ended.code != 0
    assert "/no/such/command" in ended.err


def test_a_container_that_does_not_run_is_told_of(speaking: Kubectl, web: str) -> None:
    """An init container that has exited."""
    ended = speaking("exec", web, "-c", "first", "--", "true")
    assert ended.code == 1
    assert 'container not found ("first")' in ended.err


def test_a_terminal_has_its_size_and_hears_of_another(speaking: Kubectl, web: str) -> None:
    """`kubectl exec -it`."""
    words = ("exec", "-it", web, "-c", "main", "--", "sh")
    with speaking.in_terminal(*words, rows=31, columns=97) as terminal:
        terminal.until("# ")
        terminal.type("until stty size | grep '31 97'; do sleep 0.1; done\n")
        terminal.until(r"31 97\s")
        terminal.resize(40, 120)
        terminal.type("until stty size | grep '40 120'; do sleep 0.1; done\n")
        terminal.until(r"40 120\s")
        terminal.type("exit 3\n")
        assert terminal.ended() == 3


def test_files_are_copied_both_ways(kubectl: Kubectl, web: str, tmp_path: Path) -> None:
    """`kubectl cp` is tar through exec."""
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(os.urandom(3 * MIB + 7))
    kubectl.ok("cp", str(there), f"{web}:/tmp/file", "-c", "main")
    kubectl.ok("cp", f"{web}:/tmp/file", str(back), "-c", "main")
    assert back.read_bytes() == there.read_bytes()


def test_much_comes_through_unchanged(speaking: Kubectl, web: str) -> None:
    """20 MiB each way."""
    sent = os.urandom(20 * MIB)
    ended = speaking("exec", "-i", web, "-c", "main", "--", "cat", stdin=sent, patience=WITHIN)
    assert ended.code == 0
    assert hashlib.sha256(ended.out).digest() == hashlib.sha256(sent).digest()


def test_a_containers_own_streams_are_attached(speaking: Kubectl, web: str) -> None:
    """`kubectl attach -i`, without a terminal."""
    with speaking.started("attach", "-i", web, "-c", "pipe") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        while (line := process.stdout.readline()) and line != b"got hello\n":
            pass
        assert line == b"got hello\n"


def test_a_containers_terminal_is_attached(speaking: Kubectl, web: str) -> None:
    """`kubectl attach -it`: the terminal echoes the input, and cat prints it again."""
    with speaking.in_terminal("attach", "-it", web, "-c", "shell") as terminal:
        terminal.until("pressing enter")
        terminal.type("hello\n")
        terminal.until(r"hello\s+hello\s")


def forwarded(process: "subprocess.Popen[bytes]") -> int:
    """Return the local port of a port-forward."""
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.startswith("Forwarding from 127.0.0.1:"), line
    return int(line.split(":")[1].split()[0])


def said_back(port: int, text: bytes) -> bytes:
    """Send a text to a local port, and read the answer."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while data := connection.recv(1 << 16):
            found += data
        return found


def test_ports_are_forwarded(speaking: Kubectl, web: str) -> None:
    """Several connections, sequential and parallel, one of which is closed early."""
    with speaking.started("port-forward", "--address=127.0.0.1", web, ":8080", ":8081") as process:
        first, second = forwarded(process), forwarded(process)
        for number in range(3):
            assert said_back(first, b"hello %d" % number) == b"hello %d" % number
        much = os.urandom(2 * MIB)
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(said_back, (first, second), (much, much)))
        assert answers == [much, much]


def test_a_port_that_nobody_listens_on_is_told_of(speaking: Kubectl, web: str) -> None:
    """The local connection is closed, with the runtime's message."""
    with speaking.started("port-forward", "--address=127.0.0.1", web, ":9") as process:
        port = forwarded(process)
        assert said_back(port, b"") == b""  # with data in flight, kubectl's close would be a reset
        assert process.stdout is not None
        told = b""
        while b"onnection refused" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line


def test_a_pod_is_debugged(kubectl: Kubectl, cluster_node: ClusterNode, web: str) -> None:
    """`kubectl debug -it` adds a container and attaches to it."""
    words = (
        "debug",
        "-it",
        web,
        f"--image={BUSYBOX}",
        "--image-pull-policy=IfNotPresent",
        "-c",
        "look",
        "--target=main",
        "--",
        "sh",
    )
    with kubectl.in_terminal(*words) as terminal:
        terminal.until_prompt(patience=WITHIN)
        terminal.type("echo $((6 * 7))\n")
        terminal.until("42")
        terminal.type("exit\n")
        assert terminal.ended() == 0
    cluster_node.until(lambda: "42" in kubectl.ok("logs", web, "-c", "look"), "its log")


def test_a_debugged_node_is_seen(kubectl: Kubectl, cluster_node: ClusterNode) -> None:
    """`kubectl debug node/…`: a pod with the node's files, in a namespace whose pods get no token (no controller creates its CA)."""
    cluster_node.plane.make_namespace("debugging")
    token = '{"automountServiceAccountToken": false}'
    kubectl.ok("patch", "serviceaccount", "default", "-n", "debugging", "-p", token)
    words = (
        *("debug", "-n", "debugging"),
        f"node/{cluster_node.name}",
        "-it",
        f"--image={BUSYBOX}",
        "--image-pull-policy=IfNotPresent",
        "--",
        "sh",
    )
    with kubectl.in_terminal(*words) as terminal:
        terminal.until_prompt(patience=WITHIN)
        terminal.type("ls /host/proc/1/stat\n")
        terminal.until(r"\n/host/proc/1/stat")
        terminal.type("exit\n")
        terminal.ended()


@pytest.mark.parametrize("number", [pytest.param(20), pytest.param(200, marks=pytest.mark.stress)])
def test_nothing_stays_of_commands_some_of_whose_clients_are_killed(
    kubectl: Kubectl, cluster_node: ClusterNode, web: str, number: int
) -> None:
    """Neither descriptors nor memory of the node's process, nor commands in the pod."""
    node = cluster_node.processes["node"].pid
    kubectl.ok("exec", web, "-c", "main", "--", "true")

    def descriptors() -> int:
        return len(list(Path(f"/proc/{node}/fd").iterdir()))

    time.sleep(1)  # until the sockets of the first call are closed
    before = descriptors()

    def one(index: int) -> None:
        with kubectl.started("exec", "-i", web, "-c", "main", "--", "sh", "-c", "echo here; cat") as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == b"here\n"
            # containerd loses the end of a stdin that nothing was written to, if its shim has not opened it yet (docs/differences.md)
            process.stdin.write(b"there\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"there\n"
            if index % 3:
                process.stdin.close()
                assert process.wait(PATIENCE) == 0

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, range(number)))
    cluster_node.until(lambda: descriptors() <= before, f"at most {before} descriptors of the node's process")
    count = ("exec", web, "-c", "main", "--", "sh", "-c", "ps | grep -c '[e]cho here' || true")
    cluster_node.until(lambda: kubectl.ok(*count).strip() == "0", "no command in the pod")
