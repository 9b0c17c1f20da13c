"""Does a machine with a bootstrap token become a node, renew its certificates, and use the new ones?"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from activities.clients.api_server.api_server import ApiRefused, ApiServer
from activities.clients.api_server.kubeconfig import load_kubeconfig
from activities.clients.api_server.resources import NODES
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from tests.cluster.control_plane import ControlPlane
from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.node.certificates.bootstrap import bootstrap
from worker.node.certificates.renewal import rotate_client_certificate, rotate_serving_certificate
from worker.node.certificates.store import CLIENT, SERVER, CertificateStore
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.peers import PeerProcesses
from worker.settings.cluster import ClusterSettings, Serving

REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
TOKEN: Final = "abcdef.0123456789abcdef"
BINDINGS: Final = {
    "create-csrs-for-bootstrapping": "system:node-bootstrapper",
    "auto-approve-csrs-for-group": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
}


@pytest.fixture(scope="module")
def signing_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane whose controller-manager approves and signs, with the shortest possible lifetime."""
    plane = ControlPlane(
        tmp_path_factory.mktemp("signing"), controllers=True, controller_flags=["--cluster-signing-duration=1h"]
    )
    with plane:
        prepare(plane)
        yield plane


def prepare(plane: ControlPlane) -> None:
    """Create what kubeadm creates: a bootstrap token, and its group's rights to request certificates and to be approved."""
    identity, secret = TOKEN.split(".")
    data = {"token-id": identity, "token-secret": secret, "usage-bootstrap-authentication": "true"}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    made = {
        "metadata": {"name": f"bootstrap-token-{identity}"},
        "type": "bootstrap.kubernetes.io/token",
        "data": encoded,
    }
    plane.api.create("/api/v1/namespaces/kube-system/secrets", made)
    group = {"kind": "Group", "name": "system:bootstrappers", "apiGroup": "rbac.authorization.k8s.io"}
    nodes = {**group, "name": "system:nodes"}
    renewal = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    for name, role, subject in (
        *((name, role, group) for name, role in BINDINGS.items()),
        ("renewals", renewal, nodes),
    ):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        plane.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


def settings(plane: ControlPlane, folder: Path, token: str = TOKEN, **more: Any) -> ClusterSettings:
    """Return the settings of a machine that has only a bootstrap token."""
    content = {
        "clusters": [
            {"name": "c", "cluster": {"server": plane.server, "certificate-authority": str(plane.pki / "ca.crt")}}
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "bootstrap.kubeconfig"
    path.write_text(json.dumps(content))
    return ClusterSettings(folder / "kubeconfig", bootstrap_kubeconfig=path, cert_dir=folder / "pki", **more)


@asynccontextmanager
async def node_dependencies(cluster: ClusterSettings, node: str) -> AsyncIterator[NodeDependencies]:
    """Return the dependencies of the node process's parts."""
    config = NodeConfig(node, cluster=cluster)
    runtime = RuntimeClient("unix:///nowhere", StartLimit(1), ())
    kubeconfig = replace(load_kubeconfig(cluster.kubeconfig), rotated=cluster.client_pair)
    async with ApiServer(kubeconfig) as api, Service(lambda: "") as service:
        yield NodeDependencies(
            config=config,
            cluster=cluster,
            api=api,
            runtime=runtime,
            service=service,
            processes=PeerProcesses(config.root_dir),
        )
    await runtime.close()


async def test_a_machine_becomes_a_node(signing_plane: ControlPlane, tmp_path: Path) -> None:
    """It requests a certificate with its token and is system:node:<name> afterwards; a restart makes no request."""
    cluster = settings(signing_plane, tmp_path)
    async with asyncio.timeout(60):
        await bootstrap(cluster, "joins")
    asked = len(signing_plane.api.get(REQUESTS)["items"])
    async with asyncio.timeout(60):
        await bootstrap(cluster, "joins")
    assert len(signing_plane.api.get(REQUESTS)["items"]) == asked
    assert not (tmp_path / "pki" / "kubelet-client.key.tmp").exists()
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    async with node_dependencies(cluster, "joins") as here:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "joins"}}
        await here.api.create(NODES.path(), node)
        with pytest.raises(ApiRefused, match="is not allowed to modify node") as refused:
            await here.api.create(NODES.path(), {**node, "metadata": {"name": "another"}})
        assert refused.value.reason == "Forbidden"


async def test_a_wrong_token_is_told_and_tried_again(signing_plane: ControlPlane, tmp_path: Path) -> None:
    """No crash, no kubeconfig; the key is kept for the next attempt."""
    cluster = settings(signing_plane, tmp_path, token="abcdef.wrong")
    asking = asyncio.create_task(bootstrap(cluster, "refused"))
    await until((tmp_path / "pki" / "kubelet-client.key.tmp").exists)
    ended, _ = await asyncio.wait({asking}, timeout=3)  # the second attempt comes after two seconds
    assert not ended
    asking.cancel()
    await asyncio.wait({asking})
    assert not cluster.kubeconfig.exists()
    assert (tmp_path / "pki" / "kubelet-client.key.tmp").exists()


async def test_a_client_certificate_that_is_due_is_renewed_and_taken_up(
    signing_plane: ControlPlane, tmp_path: Path
) -> None:
    """The same `ApiServer` uses the new certificate, without a restart."""
    cluster = settings(signing_plane, tmp_path)
    async with asyncio.timeout(60):
        await bootstrap(cluster, "renews")
    own = of_the_kubeconfig_itself(cluster)
    store = CertificateStore(cluster.cert_dir, CLIENT)
    async with node_dependencies(cluster, "renews") as here:
        await here.api.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "renews"}})
        keeping = asyncio.create_task(rotate_client_certificate(here))
        await until(lambda: store.current() is not None and here.certificates["client"].not_after is not None)
        keeping.cancel()
        own.unlink()  # from here on only the new one can be used
        found = await here.api.get(NODES.path("renews"))
        assert found["metadata"]["name"] == "renews"


def of_the_kubeconfig_itself(cluster: ClusterSettings) -> Path:
    """Let the kubeconfig name a certificate without a rotated one beside it: one is requested at once."""
    store = CertificateStore(cluster.cert_dir, CLIENT)
    own = cluster.cert_dir / "own.pem"
    own.write_bytes(store.current_path.read_bytes())
    kubeconfig = json.loads(cluster.kubeconfig.read_text())
    kubeconfig["users"][0]["user"] = {"client-certificate": str(own), "client-key": str(own)}
    cluster.kubeconfig.write_text(json.dumps(kubeconfig))
    store.current_path.unlink()
    return own


async def test_the_serving_certificate_is_for_the_nodes_addresses_and_follows_them(
    signing_plane: ControlPlane, tmp_path: Path
) -> None:
    """A person approves it; a new address needs a new certificate."""
    cluster = settings(signing_plane, tmp_path, serving=Serving(bootstrap=True))
    async with asyncio.timeout(60):
        await bootstrap(cluster, "serves")
    api = signing_plane.api
    async with node_dependencies(cluster, "serves") as here:
        await here.api.create(NODES.path(), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "serves"}})
        keeping = asyncio.create_task(rotate_serving_certificate(here))
        store = CertificateStore(cluster.cert_dir, SERVER)
        addresses = [{"type": "InternalIP", "address": "10.88.0.9"}, {"type": "Hostname", "address": "serves"}]
        api.patch("/api/v1/nodes/serves/status", {"status": {"addresses": addresses}})
        await until(lambda: serving_request(api.get(REQUESTS)["items"]) is not None)
        request = serving_request(api.get(REQUESTS)["items"])
        assert request is not None
        approve(signing_plane, request)
        await until(lambda: store.current() is not None)
        pair = store.current()
        assert pair is not None
        assert pair.not_after <= datetime.now(UTC) + timedelta(hours=1)
        assert here.certificates["server"].renew_errors == 0
        keeping.cancel()


async def until(holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Poll until something holds, in the processes of the control plane."""
    deadline = asyncio.get_running_loop().time() + patience
    while not await asyncio.to_thread(holds):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


def serving_request(items: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the request for a serving certificate."""
    return next((one for one in items if one["spec"]["signerName"] == "kubernetes.io/kubelet-serving"), None)


def approve(plane: ControlPlane, request: dict[str, Any]) -> None:
    """Approve it, as `kubectl certificate approve` does."""
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": "the test approves"}
    plane.api.call(
        "PUT", f"{REQUESTS}/{request['metadata']['name']}/approval", {**request, "status": {"conditions": [condition]}}
    )
