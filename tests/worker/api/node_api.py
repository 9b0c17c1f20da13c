"""The node's API for tests: the real server on a free port, a stand-in for reviews, and clients of all kinds."""

import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig, Material
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from tests.cluster.certificates import Authority, Signed
from tests.worker.api.reviews import Reviews
from worker.api.access.route import Route
from worker.api.routes import ROUTES
from worker.api.server import open_read_only, open_server
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.node_lock import hold_node_lock
from worker.daemon.service import Service
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.peers import ROLES, PeerProcesses
from worker.settings.cluster import Authentication, ClusterSettings, Serving

NODE_NAME = "n1"
NO_TOKEN = Material()
REFUSED = (aiohttp.ClientError, ssl.SSLError, ConnectionError)
"""The error of a client whose certificate is not accepted: its handshake is aborted."""


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    text: str
    kind: str = ""


@dataclass
class NodeApi:
    """A served API and its clients."""

    folder: Path
    reviews: Reviews
    authority: Authority
    around: NodeDependencies
    port: int = 0

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        certificate: Signed | None = None,
        token: str = "",
        secure: bool = True,
        **more: Any,
    ) -> Answer:
        """Send one request on a connection of its own; the path is sent unchanged."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        connector = aiohttp.TCPConnector(ssl=client_context(certificate), force_close=True)
        scheme = "https" if secure else "http"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(
                method,
                URL(f"{scheme}://127.0.0.1:{self.port}{path}", encoded=True),
                headers=headers,
                allow_redirects=False,
                **more,
            ) as response,
        ):
            return Answer(response.status, await response.text(), response.headers.get("Content-Type", ""))


def client_context(certificate: Signed | None = None) -> ssl.SSLContext:
    """Return a client's TLS context, which does not verify the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def node_config(folder: Path, serving: Serving, **changes: Any) -> NodeConfig:
    """Return the configuration of a cluster's node."""
    cluster = ClusterSettings(kubeconfig=folder / "kubeconfig", cert_dir=folder / "pki", serving=serving)
    return NodeConfig(
        node_name=NODE_NAME,
        root_dir=folder / "root",
        pod_logs_dir=folder / "logs",
        container_runtime_endpoint=f"unix://{folder}/no-runtime.sock",
        cluster=cluster,
        **changes,
    )


@contextlib.asynccontextmanager
async def node_around(config: NodeConfig, kubeconfig: Kubeconfig) -> AsyncIterator[NodeDependencies]:
    """Yield the dependencies of a node process, beside which worker and poller run."""
    assert config.cluster is not None
    runtime = RuntimeClient(config.container_runtime_endpoint, StartLimit(1), ())
    try:
        async with ApiServer(kubeconfig) as api, contextlib.AsyncExitStack() as others:
            for role in ROLES:
                others.enter_context(hold_node_lock(config.root_dir, role))
            yield NodeDependencies(
                config=config,
                cluster=config.cluster,
                api=api,
                runtime=runtime,
                service=Service(LoopHealth("node"), {}),
                processes=PeerProcesses(config.root_dir),
                health=LoopHealth("node"),
            )
    finally:
        await runtime.close()


@contextlib.asynccontextmanager
async def node_api(
    folder: Path,
    *,
    serving: Serving | None = None,
    authentication: Authentication | None = None,
    routes: Sequence[Route] = ROUTES,
    read_only: bool = False,
    token: Material = NO_TOKEN,
    **changes: Any,
) -> AsyncIterator[NodeApi]:
    """Serve the node's API while the block runs; `token` is the node's own, for the API server."""
    authority = Authority.make(folder / "authority")
    if authentication is None:
        authentication = Authentication(client_ca_file=authority.folder / "ca.crt")
    serving = dataclasses.replace(
        serving or Serving(), address="127.0.0.1", port=0, read_only_port=0, authentication=authentication
    )
    open_it = open_read_only if read_only else open_server
    async with (
        Reviews().serving() as reviews,
        node_around(node_config(folder, serving, **changes), Kubeconfig(server=reviews.url, token=token)) as around,
        open_it(around, routes) as port,
    ):
        yield NodeApi(folder, reviews, authority, around, port)
