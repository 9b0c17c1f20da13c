"""Do a pod's volumes and variables have the API's content, and follow it, on a real node with real containers?"""

import base64
import json
from pathlib import Path
from typing import Any

from proto.temporal.names import OBJECTS_CHANGED
from proto.temporal.signals import ObjectsChanged
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.node.pod_story import history_text
from tests.node.secrets.searched_files import files_with
from tests.node.tempolet_node import BUSYBOX, pod_manifest, wait

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
CONFIG_ERROR = "CreateContainerConfigError"
AT_ONCE = 10.0
"""Seconds until a change must show: one on an idle machine, a minute without a watch."""


def run(node: ClusterNode, name: str, **spec: Any) -> str:
    """Run a pod of the API; returns its uid."""
    made = node.create_pod(pod_manifest(name, **spec))
    node.until_running(name)
    return str(made["metadata"]["uid"])


def volume(node: ClusterNode, uid: str, kind: str, name: str) -> Path:
    """Return the node's path of a volume's files."""
    return node.root_dir / "pods" / uid / "volumes" / f"kubernetes.io~{kind}" / name


def payload(token: str) -> dict[str, Any]:
    """Decode a token's payload."""
    part = token.split(".")[1]
    said: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return said


def test_a_pod_has_its_token_its_authority_and_its_namespace(cluster_node: ClusterNode) -> None:
    """The volume that the API server's admission adds to every pod; the token is valid, and the pod's."""
    uid = run(cluster_node, "bearer")
    made = cluster_node.api.get(pods_path(name="bearer"))
    [access] = [one["name"] for one in made["spec"]["volumes"] if one["name"].startswith("kube-api-access-")]
    files = volume(cluster_node, uid, "projected", access)
    assert (files / "namespace").read_text() == "default"
    assert (files / "ca.crt").read_text() == (cluster_node.plane.pki / "ca.crt").read_text()
    token = (files / "token").read_text()
    review = cluster_node.api.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})[
        "status"
    ]
    assert review["user"]["username"] == "system:serviceaccount:default:default"
    assert payload(token)["kubernetes.io"]["pod"] == {"name": "bearer", "uid": uid}
    assert (files / "token").stat().st_mode & 0o777 == 0o644
    snapshot = cluster_node.until_running("bearer")
    signature = token.rpartition(".")[2]  # without it the token is worthless
    for told in (history_text(cluster_node, snapshot), *map(cluster_node.log, cluster_node.roles)):
        assert signature not in told
    for folder in (cluster_node.directory, cluster_node.temporal.root):
        assert files_with(signature.encode(), folder) == []


def test_a_pod_hears_of_nothing_that_has_not_changed(cluster_node: ClusterNode) -> None:
    """Also when worker and poller were restarted: with an API no objects folder is watched."""
    cluster_node.api.create(MAPS, {"metadata": {"name": "still"}, "data": {"key": "one"}})
    run(cluster_node, "still", volumes=[{"name": "map", "configMap": {"name": "still", "optional": True}}])
    for role in ("worker", "poller"):
        cluster_node.stop(role)
        cluster_node.start(role)
    run(cluster_node, "after")  # by then both have compared everything they know
    assert OBJECTS_CHANGED not in history_text(cluster_node, cluster_node.until_running("still"))


def test_a_token_is_its_users_alone(cluster_node: ClusterNode) -> None:
    """If all containers run as one user; with an fsGroup the group can read it, too."""
    alone = run(cluster_node, "alone", securityContext={"runAsUser": 1234})
    group = run(cluster_node, "group", securityContext={"runAsUser": 1234, "fsGroup": 4321})
    found = {}
    for name, uid in (("alone", alone), ("group", group)):
        [token] = (cluster_node.root_dir / "pods" / uid / "volumes" / "kubernetes.io~projected").glob("*/token")
        found[name] = (token.stat().st_uid, token.stat().st_gid, token.stat().st_mode & 0o777)
    assert found == {"alone": (1234, 0, 0o600), "group": (1234, 4321, 0o640)}


def test_a_token_that_was_renewed_is_written_into_the_volume(cluster_node: ClusterNode) -> None:
    """By the signal of the rotation; a restarted worker has to request another one."""
    uid = run(cluster_node, "renewed")
    [token] = (cluster_node.root_dir / "pods" / uid / "volumes" / "kubernetes.io~projected").glob("*/token")
    before = token.read_text()
    cluster_node.stop("worker")
    cluster_node.start("worker")
    snapshot = cluster_node.until_running("renewed")
    [key] = [one for one in snapshot.objects if one.startswith("serviceaccounttokens/")]

    async def hint() -> None:
        handle = await cluster_node.workflow(snapshot)
        await handle.signal(OBJECTS_CHANGED, ObjectsChanged("objects", {key: "another"}, 1))

    wait(hint())
    cluster_node.until(lambda: token.read_text() != before, "another token in the volume")
    assert payload(token.read_text())["kubernetes.io"]["pod"]["uid"] == uid


def test_volumes_show_what_has_changed(cluster_node: ClusterNode) -> None:
    """A Secret and a ConfigMap, at once; immutable ones stay."""
    api = cluster_node.api
    api.create(SECRETS, {"metadata": {"name": "db"}, "stringData": {"password": "one"}})
    api.create(MAPS, {"metadata": {"name": "app"}, "data": {"key": "one"}})
    volumes = [
        {"name": "secret", "secret": {"secretName": "db"}},
        {"name": "map", "configMap": {"name": "app"}},
    ]
    uid = run(cluster_node, "shows", volumes=volumes)
    password = volume(cluster_node, uid, "secret", "secret") / "password"
    key = volume(cluster_node, uid, "configmap", "map") / "key"
    assert (password.read_text(), key.read_text()) == ("one", "one")
    api.patch(f"{SECRETS}/db", {"stringData": {"password": "two"}})
    cluster_node.until(lambda: password.read_text() == "two", "the new password", AT_ONCE)
    api.patch(f"{MAPS}/app", {"data": {"key": "two"}})
    cluster_node.until(lambda: key.read_text() == "two", "the new key", AT_ONCE)


def test_a_pod_starts_when_what_it_misses_appears(cluster_node: ClusterNode) -> None:
    """A volume's ConfigMap, and a variable's Secret."""
    api = cluster_node.api
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sleep", "3600"],
        "env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "later", "key": "p"}}}],
    }
    cluster_node.create_pod(pod_manifest("waits", volumes=[{"name": "map", "configMap": {"name": "later"}}]))
    cluster_node.create_pod(pod_manifest("waits-too", containers=[container]))
    cluster_node.until_pod("waits", lambda one: one.reason == "FailedMount", "waits for its volume")
    cluster_node.until_pod("waits-too", lambda one: one.reason == CONFIG_ERROR, "waits for its variable")
    api.create(MAPS, {"metadata": {"name": "later"}, "data": {}})
    api.create(SECRETS, {"metadata": {"name": "later"}, "stringData": {"p": "q"}})
    both = ("waits", "waits-too")
    cluster_node.until(
        lambda: all((pod := cluster_node.pod(one)) and pod.ready for one in both), "both running", AT_ONCE
    )


def test_volumes_tell_of_the_pod_as_the_api_has_it_now(cluster_node: ClusterNode) -> None:
    """A label and an annotation that were changed in the API."""
    items = [{"path": field, "fieldRef": {"fieldPath": f"metadata.{field}"}} for field in ("labels", "annotations")]
    uid = run(cluster_node, "told", volumes=[{"name": "me", "downwardAPI": {"items": items}}])
    files = volume(cluster_node, uid, "downward-api", "me")
    assert "tier" not in (files / "labels").read_text()
    metadata = {"labels": {"tier": "front"}, "annotations": {"note": "two"}}
    cluster_node.api.patch(pods_path(name="told"), {"metadata": metadata})
    cluster_node.until(lambda: 'tier="front"' in (files / "labels").read_text(), "the new label", AT_ONCE)
    cluster_node.until(lambda: 'note="two"' in (files / "annotations").read_text(), "the new annotation", AT_ONCE)


def test_a_container_knows_the_services_of_its_namespace(cluster_node: ClusterNode) -> None:
    """And the API server's own."""
    port = {"port": 80, "protocol": "TCP"}
    web = {"metadata": {"name": "web-shop"}, "spec": {"ports": [port], "selector": {"a": "b"}}}
    made = cluster_node.api.create("/api/v1/namespaces/default/services", web)
    run(cluster_node, "before")  # the node has seen the service once a pod created after it runs
    uid = run(
        cluster_node,
        "links",
        volumes=[{"name": "out", "emptyDir": {}}],
        containers=[
            {
                "name": "main",
                "image": BUSYBOX,
                "command": ["sh", "-c", "env > /out/new; mv /out/new /out/env; sleep 3600"],
                "volumeMounts": [{"name": "out", "mountPath": "/out"}],
            }
        ],
    )
    told = volume(cluster_node, uid, "empty-dir", "out") / "env"
    cluster_node.until(told.exists, "all of its variables")
    assert f"WEB_SHOP_SERVICE_HOST={made['spec']['clusterIP']}\n" in told.read_text()
    assert "KUBERNETES_SERVICE_HOST=10.96.0.1\n" in told.read_text()
