"""Can a peer that the node asks hold the event loop? Each row is a peer that tries, and 50 ms are the most that it may."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from activities.clients.csi_driver import CsiError, connected
from activities.clients.csi_drivers import CsiDrivers
from activities.clients.manifest_url import ManifestsUnreadable, ManifestUrl
from activities.clients.plugins.kinds import PluginRefused, register
from activities.clients.plugins.registration import PluginUnreachable
from activities.clients.runtime import RuntimeClient
from activities.hooks.hook_request import send_hook_request
from activities.probes.exec_command import ExecCommand
from activities.probes.grpc_health import GrpcHealth
from activities.probes.http_get import HttpGet
from activities.probes.outcome import ProbeNotRun, Target
from activities.probes.tcp_socket import TcpSocket
from activities.volumes.csi.drivers.registration import CSI_PLUGIN, CsiPlugins
from tests.activities.foreign.held_loop import holds
from tests.activities.foreign.tls import key_pair, large_group
from tests.patience import PATIENCE

SECONDS = 1.0
"""Of each probe: what it may last, however its peer behaves."""


@dataclass(frozen=True)
class Peers:
    """Where the peers listen."""

    ports: dict[str, int]
    folder: Path


Client = Callable[[Peers, str], Awaitable[object]]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Run them in a process of their own."""
    folder = tmp_path_factory.mktemp("peers")
    argv = [sys.executable, "-m", "tests.activities.foreign.peers", str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield Peers(json.loads(process.stdout.readline()), folder)
        finally:
            process.kill()


def target(runtime: Any = None) -> Target:
    """Ask at loopback."""
    return Target({"name": "web"}, "web-0", "127.0.0.1", runtime or Mock())


async def http_probe(peers: Peers, name: str, scheme: str = "HTTP", seconds: float = SECONDS) -> None:
    """Ask as an httpGet probe."""
    with suppress(ProbeNotRun):
        await HttpGet({"port": peers.ports[name], "scheme": scheme}, target(), seconds).ask()


async def https_probe(peers: Peers, name: str) -> None:
    """Ask by TLS."""
    await http_probe(peers, name, "HTTPS")


async def http_hook(peers: Peers, name: str) -> None:
    """Ask as a lifecycle hook, which has no limit of its own: the grace period ends it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS):
            await send_hook_request({"port": peers.ports[name]}, target(), lambda: None)


async def tcp_probe(peers: Peers, name: str) -> None:
    """Ask as a tcpSocket probe."""
    await TcpSocket({"port": peers.ports[name]}, target(), SECONDS).ask()


async def grpc_probe(peers: Peers, name: str) -> None:
    """Ask as a grpc probe."""
    probe = GrpcHealth({"port": peers.ports[name]}, target(), SECONDS)
    try:
        await probe.ask()
    finally:
        await probe.close()


async def exec_probe(peers: Peers, name: str) -> None:
    """Run a command, first as one whose answer is short."""
    runtime = RuntimeClient(str(peers.folder / name), Mock())
    try:
        await ExecCommand({"command": ["yes"]}, target(runtime), SECONDS * 10).ask()
    finally:
        await runtime.close()


async def plugin(peers: Peers, name: str) -> None:
    """Register what is behind a socket."""
    with suppress(PluginRefused, PluginUnreachable):
        await register(peers.folder / name, {CSI_PLUGIN: CsiPlugins(CsiDrivers())})


async def csi_capabilities(peers: Peers, name: str) -> None:
    """Ask a driver what it can do."""
    with suppress(CsiError):
        async with connected(str(peers.folder / name)) as node:
            await node.capabilities()


async def csi_info(peers: Peers, name: str) -> None:
    """Ask a driver about this node, as at its registration."""
    with suppress(CsiError):
        async with connected(str(peers.folder / name)) as node:
            dict((await node.info()).accessible_topology.segments)


async def manifest_url(peers: Peers, name: str) -> None:
    """Read the URL of static pods."""
    url = f"http://127.0.0.1:{peers.ports[name]}/"
    with suppress(ManifestsUnreadable):
        await ManifestUrl(url, (), most_bytes=10 * 2**20, limit=timedelta(seconds=SECONDS)).read()


ROWS: list[tuple[Client, tuple[str, ...]]] = [
    (
        http_probe,
        (
            "interim-heads",
            "trickled-header",
            "endless-header",
            "endless-fields",
            "long-redirect",
            "redirect-that-is-no-url",
            "long-length",
            "blank-lines",
            "trickled-body",
            "small-chunks",
            "flood",
        ),
    ),
    (https_probe, ("tls-interim-heads", "tls-many-tickets", "flood")),
    (http_hook, ("interim-heads", "trickled-header", "endless-fields", "flood")),
    (tcp_probe, ("flood",)),
    (
        grpc_probe,
        (
            "grpc-endless-number",
            "grpc-announced-gigabytes",
            "grpc-zipped",
            "grpc-pings",
            "grpc-settings",
            "grpc-no-grpc",
        ),
    ),
    (exec_probe, ("exec-16-mib",)),
    (plugin, ("plugin-many-versions", "plugin-far-version", "plugin-garbage", "negative-length", "grpc-pings")),
    (csi_capabilities, ("csi-many-capabilities", "csi-garbage", "grpc-zipped")),
    (csi_info, ("csi-large-topology", "csi-garbage", "negative-length", "grpc-announced-gigabytes")),
    (manifest_url, ("interim-heads", "trickled-header", "endless-fields", "small-chunks", "zipped", "flood")),
]


@pytest.mark.parametrize(
    ("client", "peer"),
    [pytest.param(client, peer, id=f"{client.__name__}-{peer}") for client, names in ROWS for peer in names],
)
async def test_a_peer_does_not_hold_the_event_loop(peers: Peers, client: Client, peer: str) -> None:
    """Whatever it answers, and however long."""
    assert await holds(lambda: client(peers, peer)) == []


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256", "-dhparam"), id="a-group-of-its-own"),
        pytest.param(("-tls1_3", "-groups", "ffdhe8192"), id="the-largest-group-of-tls-1.3"),
    ],
)
async def test_a_peer_does_not_choose_costly_keys(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """A TLS server chooses the group, and to compute with a large one takes a tenth of a second, or six."""
    if not (openssl := shutil.which("openssl")):
        pytest.skip("needs openssl: Python's own server cannot choose a group")
    group = (str(large_group(tmp_path)),) if keys[-1] == "-dhparam" else ()
    argv = [openssl, "s_server", "-accept", "127.0.0.1:0", "-cert", str(key_pair(tmp_path)), "-www", *keys, *group]

    async def ask() -> None:
        server = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert server.stdout is not None
        try:
            while not (said := await server.stdout.readline()).startswith(b"ACCEPT"):
                assert said
            peers = Peers({"openssl": int(said.rpartition(b":")[2])}, tmp_path)
            await http_probe(peers, "openssl", "HTTPS", PATIENCE)  # the server, too, computes for seconds
        finally:
            server.kill()
            await server.wait()

    assert await holds(ask) == []
