"""Do clients that connect to the node directly get what the kubelet serves: WebSockets of every version, errors, one-time URLs?"""

import asyncio
import json
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from proto.cri.v1 import api_pb2 as cri
from tests.cluster.cluster_node import ClusterNode, listening_at
from tests.node.tempolet_node import BUSYBOX, PATIENCE, pod_manifest
from worker.api.streams import spdy
from worker.api.streams.backend import Backend
from worker.api.streams.translation import CLOSE, ERROR, STDERR, STDIN, STDOUT, V5
from worker.standalone.containerd import Containerd

pytestmark = pytest.mark.usefixtures("pod")

BOTH = "input=1&output=1&error=1"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


@dataclass
class Direct:
    """A client with the rights of the API server."""

    session: aiohttp.ClientSession
    context: ssl.SSLContext
    port: int
    address: str

    def url(self, path: str) -> URL:
        """Build a URL whose path is sent unchanged."""
        return URL(f"https://{self.address}:{self.port}{path}", encoded=True)

    def socket(
        self, path: str, *protocols: str
    ) -> AbstractAsyncContextManager["aiohttp.ClientWebSocketResponse[bool]"]:
        """Open a WebSocket."""
        return self.session.ws_connect(self.url(path), ssl=self.context, protocols=protocols)

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, str]:
        """Make a request and read the whole response."""
        async with self.session.request(method, self.url(path), ssl=self.context, headers=headers) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def direct(cluster_node: ClusterNode) -> AsyncIterator[Direct]:
    """Return such a client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the node has signed its serving certificate itself
    context.load_cert_chain(cluster_node.plane.pki / "kubeletclient.crt", cluster_node.plane.pki / "kubeletclient.key")
    async with aiohttp.ClientSession() as session:
        yield Direct(session, context, cluster_node.api_port, cluster_node.node_ip)


@pytest.fixture(scope="module")
def pod(cluster_node: ClusterNode) -> Any:
    """Run one pod for all tests."""
    made = pod_manifest("direct", automountServiceAccountToken=False)
    reading = "while read -r line; do echo got $line; done; sleep 3600"
    made["spec"]["containers"] += [
        {"name": "pipe", "image": BUSYBOX, "command": ["sh", "-c", reading], "stdin": True},
        {
            "name": "echo",
            "image": BUSYBOX,
            "command": ["sh", "-c", "nc -lk -p 8080 -e cat || nc -ll -p 8080 -e cat"],
            "startupProbe": listening_at(8080),
        },
    ]
    cluster_node.create_pod(made)
    return cluster_node.until_pod_ready("direct")


def command(*words: str) -> str:
    """Build the query of a command."""
    return "&".join(str(URL.build(query={"command": one}).raw_query_string) for one in words)


async def heard(socket: "aiohttp.ClientWebSocketResponse[bool]") -> dict[int, bytes]:
    """Read each channel to its end."""
    found: dict[int, bytes] = {}
    async with asyncio.timeout(PATIENCE):
        async for message in socket:
            found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


async def test_stdin_is_closed_and_the_exit_code_told_over_v5(direct: Direct) -> None:
    """Unlike v4, v5 can close stdin."""
    words = command("sh", "-c", "cat; echo wrong >&2; exit 7")
    async with direct.socket(f"/exec/default/direct/main?{BOTH}&{words}", V5, "v4.channel.k8s.io") as socket:
        assert socket.protocol == V5
        await socket.send_bytes(bytes([STDIN]) + b"in" * 100_000)
        await socket.send_bytes(bytes([CLOSE, STDIN]))
        found = await heard(socket)
    assert (found[STDOUT], found[STDERR]) == (b"in" * 100_000, b"wrong\n")
    status = json.loads(found[ERROR])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


async def test_success_is_told_over_v5(direct: Direct, pod: Any) -> None:
    """And by UID, too."""
    uid = pod["metadata"]["uid"]
    async with direct.socket(f"/exec/default/direct/{uid}/main?output=1&{command('echo', 'a b')}", V5) as socket:
        found = await heard(socket)
    assert found[STDOUT] == b"a b\n"
    assert json.loads(found[ERROR])["status"] == "Success"


async def test_a_client_of_v5_that_goes_ends_its_command(direct: Direct) -> None:
    """The runtime notices that the client is gone."""
    async with direct.socket(f"/exec/default/direct/main?{BOTH}&{command('cat', '-u')}", V5) as socket:
        await socket.send_bytes(bytes([STDIN]) + b"here")
        async with asyncio.timeout(PATIENCE):
            while (await socket.receive_bytes())[1:] != b"here":
                pass
        assert "cat -u" in await processes(direct)
    async with asyncio.timeout(PATIENCE):
        while "cat -u" in await processes(direct):  # noqa: ASYNC110 - another process: there is no event to await
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("many", [pytest.param(20), pytest.param(200, marks=pytest.mark.stress)])
async def test_nothing_stays_of_commands_at_a_time_half_of_whose_clients_vanish(
    direct: Direct, cluster_node: ClusterNode, many: int
) -> None:
    """Of both kinds, proxied and translated: no descriptor of the node's process, no command in the container."""
    path = f"/exec/default/direct/main?{BOTH}&{command('cat', '-u')}"
    await processes(direct)
    before = descriptors(cluster_node)

    async def begun(session: aiohttp.ClientSession, number: int) -> "aiohttp.ClientWebSocketResponse[bool]":
        protocols = (V5,) if number % 2 else ("v4.channel.k8s.io",)
        socket = await session.ws_connect(direct.url(path), ssl=direct.context, protocols=protocols)
        await socket.send_bytes(bytes([STDIN]) + b"here")
        while (await socket.receive_bytes())[1:] != b"here":
            pass
        return socket

    async with asyncio.timeout(200), aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as kind:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as vanishing:
            sockets = await asyncio.gather(*(begun((kind, vanishing)[one % 4 // 2], one) for one in range(many)))
            assert descriptors(cluster_node) > before + len(sockets)  # both sides of each
        for socket in sockets:
            if not socket.closed:
                await socket.close()
    async with asyncio.timeout(PATIENCE):
        while descriptors(cluster_node) > before or "cat -u" in await processes(direct):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)


def descriptors(node: ClusterNode) -> int:
    """Count the open descriptors of the node's process."""
    return len(list(Path(f"/proc/{node.processes['node'].pid}/fd").iterdir()))


async def processes(direct: Direct) -> str:
    """List the processes in the container."""
    status, text = await direct.ask("POST", "/run/default/direct/main?cmd=ps")
    assert status == 200
    return text


async def test_the_runtimes_own_websocket_is_led_through(direct: Direct) -> None:
    """V4, byte for byte."""
    words = command("sh", "-c", "echo out; echo err >&2")
    async with direct.socket(f"/exec/default/direct/main?output=1&error=1&{words}", "v4.channel.k8s.io") as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        found = await heard(socket)
    assert (found[STDOUT], found[STDERR]) == (b"out\n", b"err\n")
    assert json.loads(found[ERROR])["status"] == "Success"


@pytest.mark.parametrize("protocol", [V5, "v4.channel.k8s.io"])
async def test_a_container_is_attached(direct: Direct, protocol: str) -> None:
    """With the streams of the container itself."""
    async with direct.socket(f"/attach/default/direct/pipe?{BOTH}", protocol) as socket:
        await socket.send_bytes(bytes([STDIN]) + b"hello\n")
        async with asyncio.timeout(PATIENCE):
            while (data := await socket.receive_bytes()) != bytes([STDOUT]) + b"got hello\n":
                assert data[1:] == b""


async def test_ports_are_forwarded_by_spdy_in_a_websocket(direct: Direct) -> None:
    """The tunnel that kubectl uses, without the API server."""
    protocol = "SPDY/3.1+portforward.k8s.io"
    async with direct.socket("/portForward/default/direct", protocol) as socket:
        assert socket.protocol == protocol
        opening = spdy.Opening()
        for stream, kind in ((1, "error"), (3, "data")):
            headers = {"streamtype": kind, "port": "8080", "requestid": "0"}
            await socket.send_bytes(opening.syn_stream(stream, headers))
        await socket.send_bytes(spdy.data_frame(3, b"hello"))
        received = b""
        async with asyncio.timeout(PATIENCE):
            while spdy.data_frame(3, b"hello") not in received:
                received += await socket.receive_bytes()


async def test_ports_are_forwarded_by_channels_of_a_websocket(direct: Direct) -> None:
    """V4: two channels for each port, which begin with the port's number."""
    async with direct.socket("/portForward/default/direct?port=8080", "v4.channel.k8s.io") as socket:
        port = struct.pack("<H", 8080)
        async with asyncio.timeout(PATIENCE):
            assert {await socket.receive_bytes() for _ in range(2)} == {b"\0" + port, b"\1" + port}
            await socket.send_bytes(b"\0hello")
            assert await socket.receive_bytes() == b"\0hello"


async def test_a_command_is_run_and_answered(direct: Direct) -> None:
    """/run: the response is its output, or an error if it fails."""
    assert await direct.ask("POST", "/run/default/direct/main?cmd=echo+hello") == (200, "hello\n")
    status, text = await direct.ask("POST", "/run/default/direct/main?cmd=ls+/no")
    assert status == 500
    assert text.startswith("command 'ls /no' exited with 1: ls: /no: No such file")
    assert (await direct.ask("GET", "/run/default/direct/main?cmd=true"))[0] == 405


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        pytest.param("POST", "/exec/default/direct/main", 400, "at least 1 of stdin, stdout, stderr", id="no-streams"),
        pytest.param("POST", "/exec/default/no/main?output=1", 404, "pod does not exist", id="no-pod"),
        pytest.param("POST", "/exec/other/direct/main?output=1", 404, "pod does not exist", id="another-namespace"),
        pytest.param("POST", "/exec/default/direct/no?output=1", 404, 'container not found ("no")', id="no-container"),
        pytest.param("POST", "/exec/default/direct/u-1/main?output=1", 404, "does not exist", id="another-uid"),
        pytest.param("POST", "/exec/default/direct/..%2F..%2Fetc?output=1", 404, "", id="a-path-for-a-container"),
        pytest.param("POST", "/exec/default/direct/main%00?output=1", 404, "", id="a-nul"),
        pytest.param("POST", "/attach/default/direct/no?output=1", 404, 'container not found ("no")', id="attach"),
        pytest.param("POST", "/portForward/default/no", 404, "pod does not exist", id="no-pod-to-forward-to"),
        pytest.param("POST", "/portForward/default/direct/u-1", 404, "does not exist", id="forward-another-uid"),
        pytest.param("POST", "/run/default/direct/no?cmd=true", 404, 'container not found ("no")', id="run"),
        pytest.param("GET", "/containerLogs/default/direct/..%2Fmain", 404, "", id="a-path-for-a-log"),
        pytest.param("GET", "/containerLogs/default/direct/main?tailLines=-1", 422, "tailLines", id="log-options"),
    ],
)
async def test_what_is_wrong_is_refused(direct: Direct, method: str, path: str, status: int, told: str) -> None:
    """As a client error, with a message; the same for an upgrade."""
    for headers in ({}, UPGRADE):
        found = await direct.ask(method, path, **headers)
        assert found[0] == status
        assert told in found[1]


async def test_an_exec_without_an_upgrade_is_refused(direct: Direct) -> None:
    """Before the runtime is called."""
    assert await direct.ask("POST", "/exec/default/direct/main?output=1&command=true") == (
        400,
        "Upgrade request required",
    )


async def test_the_runtime_opens_a_url_once(containerd: Containerd, pod: Any) -> None:
    """A leaked token is worthless."""
    runtime = RuntimeClient(containerd.endpoint, StartLimit(1), ())
    try:
        status = next(one for one in pod["status"]["containerStatuses"] if one["name"] == "main")
        container_id = status["containerID"].rpartition("/")[2]
        url = await runtime.exec(cri.ExecRequest(container_id=container_id, cmd=["true"], stdout=True))
        headers = list(UPGRADE.items())[1:]
        with await Backend.open(url, "POST", headers) as first:
            assert first.answer.status == 101
        with await Backend.open(url, "POST", headers) as second:
            assert second.answer.status == 404
    finally:
        await runtime.close()
