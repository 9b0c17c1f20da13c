"""Does a client authenticate to a shared Temporal as its profile says, and connect to no other server?

The server is gRPC over TLS: it requires a certificate of its own CA, or notes the API key that is sent.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest
from temporalio.api.workflowservice.v1 import GetSystemInfoResponse

from tests.cluster.certificates import Authority, Signed
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import TEMPORAL, node_client
from worker.daemon.service import Service
from worker.daemon.troubles import TROUBLES
from worker.settings.tempolet_configuration import tempolet_configuration
from worker.temporal.temporal_client import TemporalSettings, connect

SYSTEM_INFO = "/temporal.api.workflowservice.v1.WorkflowService/GetSystemInfo"
KEY = "canary-of-an-api-key"


class Frontend(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it takes none when it runs
    """Answers what a client asks when it connects, and keeps the API keys."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """Return how a method is answered; None if it is not served."""
        said = {str(name): str(value) for name, value in details.invocation_metadata}
        self.keys.append(said.get("authorization", ""))

        async def answer(*_: object) -> bytes:
            return GetSystemInfoResponse().SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer) if details.method == SYSTEM_INFO else None


@contextlib.asynccontextmanager
async def serving(authority: Authority, *, certificates: bool) -> AsyncIterator[tuple[str, Frontend]]:
    """Serve with a certificate of an authority; clients may have to show one of it, too."""
    own = authority.sign("temporal", "temporal", hosts=["127.0.0.1"])
    server, frontend = grpc.aio.server(), Frontend()
    server.add_generic_rpc_handlers((frontend,))
    credentials = grpc.ssl_server_credentials(
        [(own.key.read_bytes(), own.certificate.read_bytes())],
        (authority.folder / "ca.crt").read_bytes(),
        require_client_auth=certificates,
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}", frontend
    finally:
        await server.stop(None)


def profile(folder: Path, authority: Authority, shown: Signed | None, api_key: str = "") -> Path:
    """Write a profile that trusts an authority, and shows a certificate or a key."""
    lines = ["[profile.default]", *([f'api_key = "{api_key}"'] if api_key else []), "[profile.default.tls]"]
    lines.append(f'server_ca_cert_path = "{authority.folder}/ca.crt"')
    if shown is not None:
        lines += [f'client_cert_path = "{shown.certificate}"', f'client_key_path = "{shown.key}"']
    file = folder / "temporal.toml"
    file.write_text("\n".join(lines))
    return file


async def connects(settings: TemporalSettings, address: str, file: Path) -> bool:
    """Return whether a client gets through before it waits for another try."""
    refused = asyncio.Event()
    chosen = replace(settings, address=address, config_file=file, environment={})
    connecting = asyncio.create_task(connect(chosen, waiting=lambda _: refused.set()))
    waiting = asyncio.create_task(refused.wait())
    await asyncio.wait({connecting, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=30)
    through = connecting.done() and connecting.exception() is None
    for task in (connecting, waiting):
        task.cancel()
    await asyncio.gather(connecting, waiting, return_exceptions=True)
    return through


@pytest.mark.parametrize(
    ("shown", "trusted", "gets_through"),
    [
        pytest.param("ours", "ours", True, id="a-certificate-of-the-cluster"),
        pytest.param(None, "ours", False, id="no-certificate"),
        pytest.param("foreign", "ours", False, id="a-certificate-of-somebody-else"),
        pytest.param("ours", "foreign", False, id="a-server-that-is-not-ours"),
    ],
)
async def test_both_sides_of_mtls_are_verified(
    settings: TemporalSettings, tmp_path: Path, shown: str | None, trusted: str, gets_through: bool
) -> None:
    """A client without the right certificate is refused, and a server that the profile does not trust is not believed."""
    authorities = {name: Authority.make(tmp_path / name) for name in ("ours", "foreign")}
    certificate = authorities[shown].sign("node-1", "node-1") if shown else None
    file = profile(tmp_path, authorities[trusted], certificate)
    async with serving(authorities["ours"], certificates=True) as (address, _):
        assert await connects(settings, address, file) is gets_through


async def test_a_server_that_we_do_not_trust_is_a_trouble_that_is_told(tmp_path: Path) -> None:
    """Its certificate may be exchanged while this process runs, so the process starts, and tries again."""
    ours, foreign = (Authority.make(tmp_path / name) for name in ("ours", "foreign"))
    async with serving(foreign, certificates=False) as (address, _):
        keys = {"address": address, "configFile": str(profile(tmp_path, ours, None))}
        config = NodeConfig("n1", root_dir=tmp_path, tempolet=tempolet_configuration({"temporal": keys}))
        node = await node_client(config, Service(lambda: "", {}), role="poller")
        reaching = asyncio.create_task(node.reach())
        await node.tried()
        (told,) = [line for line in TROUBLES.lines() if line.startswith(TEMPORAL)]
        reaching.cancel()
        TROUBLES.works(TEMPORAL)
    assert f"Temporal at {address} refuses: TLS: " in told


async def test_an_api_key_goes_to_a_trusted_server_only(settings: TemporalSettings, tmp_path: Path) -> None:
    """It is sent as a bearer token over TLS; a server of another authority never sees it."""
    ours, foreign = (Authority.make(tmp_path / name) for name in ("ours", "foreign"))
    file = profile(tmp_path, ours, None, KEY)
    async with serving(ours, certificates=False) as (address, frontend):
        assert await connects(settings, address, file)
        assert set(frontend.keys) == {f"Bearer {KEY}"}
    async with serving(foreign, certificates=False) as (address, frontend):
        assert not await connects(settings, address, file)
        assert frontend.keys == []
