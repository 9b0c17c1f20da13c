"""Does the node's API authorize exactly as RBAC says, and does a real API server reach every endpoint through its proxy?"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from activities.clients.api_server.kubeconfig import load_kubeconfig
from tests.cluster.api import Refused
from tests.cluster.certificates import Authority
from tests.cluster.cluster_node import ClusterNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubectl import Kubectl
from tests.waiting import wait_until
from tests.worker.api.node_api import NODE_NAME, REFUSED, NodeApi, node_around, node_config
from tests.worker.api.reviews import Reviews
from worker.api.access import review
from worker.api.server import open_server
from worker.settings.cluster import Authentication, Serving

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION: Final = "/apis/authorization.k8s.io/v1"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
UNAUTHORIZED: Final = (401, "Unauthorized")


def account(
    plane: ControlPlane, name: str, verbs: Sequence[str], *subresources: str, audiences: Sequence[str] = ()
) -> str:
    """Create a service account with rights to these verbs on subresources of nodes; returns its token."""
    plane.api.create(ACCOUNTS, {"metadata": {"name": name}})
    rules = [{"apiGroups": [""], "resources": [f"nodes/{one}" for one in subresources], "verbs": list(verbs)}]
    plane.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules if subresources else []})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }
    plane.api.create(f"{RBAC}/clusterrolebindings", binding)
    for one in subresources:
        until_taken_up(plane, name, verbs[0], one)
    spec = {"spec": {"audiences": list(audiences)}}
    return str(plane.api.create(f"{ACCOUNTS}/{name}/token", spec)["status"]["token"])


def until_taken_up(plane: ControlPlane, name: str, verb: str, subresource: str) -> None:
    """Wait until the API server's authorizer has seen a new right, through its watch."""
    asked = {
        "user": f"system:serviceaccount:default:{name}",
        "resourceAttributes": {"verb": verb, "resource": "nodes", "subresource": subresource},
    }
    reviews = f"{AUTHORIZATION}/subjectaccessreviews"
    wait_until(
        lambda: plane.api.create(reviews, {"spec": asked})["status"]["allowed"],
        f"{name} may {verb} nodes/{subresource}",
    )


@pytest_asyncio.fixture
async def served(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[NodeApi]:
    """Serve the node's API in this process, with a node's identity at the API server."""
    authentication = Authentication(client_ca_file=plane.pki / "ca.crt")
    serving = Serving(address="127.0.0.1", port=0, authentication=authentication)
    config = node_config(tmp_path, serving)
    async with (
        node_around(config, load_kubeconfig(plane.node_kubeconfig(NODE_NAME))) as around,
        open_server(around) as port,
    ):
        yield NodeApi(tmp_path, Reviews(), plane.authority, around, port)


async def test_tokens_are_what_the_api_server_says(plane: ControlPlane, served: NodeApi) -> None:
    """A valid one is accepted; one of another audience, a broken one and an empty one are not."""
    right = await asyncio.to_thread(account, plane, "reader", ["get"], "configz")
    elsewhere = await asyncio.to_thread(account, plane, "elsewhere", ["*"], "*", "proxy", audiences=["vault"])
    assert (await served.ask("/configz", token=right)).status == 200
    for wrong in (elsewhere, right[:-4] + "AAAA", right.rpartition(".")[0] + ".", "x"):
        answer = await served.ask("/configz", token=wrong)
        assert (answer.status, answer.text) == UNAUTHORIZED
    wrong_ca = Authority.make(served.folder / "other").sign("admin", "admin", ["system:masters"])
    for token in ("", right):
        with pytest.raises(REFUSED):
            await served.ask("/configz", token=token, certificate=wrong_ca)


@pytest.mark.parametrize(
    ("name", "verbs", "subresources", "may"),
    [
        pytest.param("nobody", ["get"], (), set(), id="no-right"),
        pytest.param("a-pods-reader", ["get"], ("pods",), {"/pods"}, id="pods-alone"),
        pytest.param("a-metrics-reader", ["get"], ("metrics",), {"/metrics/resource"}, id="metrics-alone"),
        pytest.param("a-log-reader", ["get"], ("log",), {"/logs/"}, id="log-alone"),
        pytest.param("a-getter", ["get"], ("proxy",), {"/pods", "/configz"}, id="get-proxy-is-no-exec"),
        pytest.param(
            "a-creator", ["create"], ("proxy",), {"POST /run/a/b/c", "GET /exec/a/b/c"}, id="create-proxy-is-exec"
        ),
        pytest.param("a-checker", ["create"], ("checkpoint",), {"POST /checkpoint/a/b/c"}, id="checkpoint-alone"),
    ],
)
async def test_rights_are_those_of_rbac(
    plane: ControlPlane, served: NodeApi, name: str, verbs: list[str], subresources: tuple[str, ...], may: set[str]
) -> None:
    """A path is open to those with a ClusterRole for it; all others get 403 with the kubelet's message."""
    token = await asyncio.to_thread(account, plane, name, verbs, *subresources)
    asked = {
        "/pods",
        "/configz",
        "/metrics/resource",
        "/logs/",
        "GET /exec/a/b/c",
        "POST /run/a/b/c",
        "POST /checkpoint/a/b/c",
    }
    for one in sorted(asked):
        method, _, path = one.rpartition(" ")
        answer = await served.ask(path, method=method or "GET", token=token)
        assert (answer.status not in {401, 403}) == (one in may), (one, answer)
        if one not in may:
            assert answer.text.startswith(f"Forbidden (user=system:serviceaccount:default:{name}, verb=")


async def test_an_api_server_that_is_away_lets_nobody_new_in(
    plane: ControlPlane, served: NodeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those authenticated before stay so while their results are cached."""
    monkeypatch.setattr(review, "_TRIES", 1)
    known = await asyncio.to_thread(account, plane, "known", ["get"], "configz")
    new = await asyncio.to_thread(account, plane, "new", ["get"], "configz")
    assert (await served.ask("/configz", token=known)).status == 200
    await asyncio.to_thread(plane.stop_apiserver)
    try:
        assert (await served.ask("/configz", token=known)).status == 200
        assert (await served.ask("/configz", token=new)).status == 401
        admin = plane.authority.sign("late", "late", ["system:masters"])
        answer = await served.ask("/configz", certificate=admin)
        assert (answer.status, json.loads(answer.text)["message"]) == (
            503,
            "Authorization error (user=late, verb=get, resource=nodes, subresource=configz): the API server does not answer; retry",
        )
    finally:
        await asyncio.to_thread(plane.start_apiserver)
    assert (await served.ask("/configz", token=new)).status == 200
    assert (await served.ask("/configz", certificate=admin)).status == 200


def raw(kubectl: Kubectl, node: ClusterNode, path: str) -> str:
    """Request a path of the node's API through the API server."""
    return kubectl.ok("get", "--raw", f"{node.path}/proxy{path}")


def test_kubectl_reaches_the_endpoints_through_the_api_server(cluster_node: ClusterNode, kubectl: Kubectl) -> None:
    """With the API server's own certificate and an administrator's rights by RBAC."""
    cluster_node.until_ready()
    cluster_node.run_pod("shown")
    assert raw(kubectl, cluster_node, "/healthz") == "ok"
    (pod,) = json.loads(raw(kubectl, cluster_node, "/pods"))["items"]
    assert (pod["metadata"]["name"], pod["status"]["phase"]) == ("shown", "Running")
    (running,) = json.loads(raw(kubectl, cluster_node, "/runningpods/"))["items"]
    assert [one["name"] for one in running["spec"]["containers"]] == ["main"]
    shown = json.loads(raw(kubectl, cluster_node, "/configz"))["kubeletconfig"]
    assert (shown["kind"], shown["port"]) == ("KubeletConfiguration", cluster_node.api_port)
    assert "kubelet statusz" in raw(kubectl, cluster_node, "/statusz")
    assert f"node-ip={cluster_node.node_ip}" in raw(kubectl, cluster_node, "/flagz")
    assert "<pre>" in raw(kubectl, cluster_node, "/logs/")
    for path in ("/logs/../../etc/passwd", "/logs/%2e%2e/%2e%2e/etc/passwd", "/logs/..%2f..%2fetc%2fpasswd"):
        refused = kubectl("get", "--raw", f"{cluster_node.path}/proxy{path}")
        assert refused.code != 0
        assert "root:" not in refused.text


def test_a_runtime_that_can_make_no_checkpoint_is_quoted(cluster_node: ClusterNode) -> None:
    """The machine has no criu: 500, as from the kubelet, and no file is left."""
    cluster_node.run_pod("kept")
    with pytest.raises(Refused, match=r"checkpointing of default/kept/main failed \(CheckpointContainer") as refused:
        cluster_node.api.call("POST", f"{cluster_node.path}/proxy/checkpoint/default/kept/main", patience=60)
    assert refused.value.status == 500
    assert not list((cluster_node.root_dir / "checkpoints").glob("*.tar"))
