"""Does a node of a cluster read its pods' objects as the kubelet does: with a watch for each, fresh, and authorized?"""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused
from activities.objects.tokens import TokenRefused
from activities.objects.trust_bundles import TrustBundleRefused
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects.objects_node import PATIENCE, ObjectsNode, objects_node
from worker.api_objects import watched_object, watched_objects

CM, SECRET = ObjectKind.CONFIG_MAPS, ObjectKind.SECRETS
AT_ONCE = 10.0
"""Seconds: on an idle machine it takes a tenth of one, without a watch a minute."""
NUMBERS = iter(range(1000))


@pytest.fixture
async def node(plane: ControlPlane) -> AsyncIterator[ObjectsNode]:
    """Run one for a test."""
    async with objects_node(plane, f"objects-{next(NUMBERS)}") as made:
        yield made


def with_map(name: str) -> dict[str, Any]:
    """Return the volumes of a pod with this ConfigMap."""
    return {"volumes": [{"name": "v", "configMap": {"name": name}}]}


def with_secret(name: str) -> dict[str, Any]:
    """Return the volumes of a pod with this Secret."""
    return {"volumes": [{"name": "v", "secret": {"secretName": name}}]}


async def test_an_object_is_read_once_and_watched_from_then_on(node: ObjectsNode) -> None:
    """Another pod does not read it again; its managed fields are dropped."""
    node.make("configmaps", "app", data={"key": "one"})
    node.bind("a", **with_map("app"))
    node.bind("b", **with_map("app"))
    found = await node.get(CM, "app")
    assert (found.json["data"], "managedFields" in found.json["metadata"]) == ({"key": "one"}, False)
    assert await node.get(CM, "app") is found
    await node.until_watching("configmaps/app")


async def test_a_pod_that_shows_it_hears_of_another_version(node: ObjectsNode) -> None:
    """At once, and once; a pod that does not show it gets nothing."""
    node.make("secrets", "db", data={"password": base64.b64encode(b"one").decode()})
    shows, reads = node.bind("shows", **with_secret("db")), node.bind("reads", **with_secret("db"))
    version = (await node.get(SECRET, "db")).version
    node.show(shows, secrets__db=version)
    await node.until_watching("secrets/db")
    newer = node.plane.api.patch(node.path("secrets", "db"), {"stringData": {"password": "two"}})
    assert await node.heard(AT_ONCE) == (shows.uid, {"secrets/db": newer["metadata"]["resourceVersion"]})
    assert base64.b64decode((await node.get(SECRET, "db")).json["data"]["password"]) == b"two"
    assert reads.uid in node.pods
    assert node.told.empty()


async def test_what_is_no_content_is_no_news(node: ObjectsNode) -> None:
    """An annotation is not written into any file."""
    node.make("configmaps", "app", data={"key": "one"})
    pod = node.bind("a", **with_map("app"))
    node.show(pod, configmaps__app=(await node.get(CM, "app")).version)
    node.plane.api.patch(node.path("configmaps", "app"), {"metadata": {"annotations": {"a": "b"}}})
    newer = node.plane.api.patch(node.path("configmaps", "app"), {"data": {"key": "two"}})
    assert await node.heard() == (pod.uid, {"configmaps/app": newer["metadata"]["resourceVersion"]})
    assert node.told.empty()


async def test_who_waits_for_an_object_hears_of_its_appearance(node: ObjectsNode) -> None:
    """Not of anything before; of its deletion afterwards."""
    pod = node.show(node.bind("a", **with_map("late")), configmaps__late="?")
    with pytest.raises(ObjectMissing, match='configmap "late" not found'):
        await node.get(CM, "late")
    made = node.make("configmaps", "late", data={})
    version = made["metadata"]["resourceVersion"]
    assert await node.heard(AT_ONCE) == (pod.uid, {"configmaps/late": version})
    node.show(pod, configmaps__late=version)
    node.plane.api.delete(node.path("configmaps", "late"))
    assert await node.heard(AT_ONCE) == (pod.uid, {"configmaps/late": ""})


async def test_what_promises_not_to_change_is_not_watched_on(node: ObjectsNode) -> None:
    """It is cached nevertheless, also for the next pod."""
    node.make("configmaps", "fixed", data={"key": "one"}, immutable=True)
    pod = node.bind("a", **with_map("fixed"))
    found = await node.get(CM, "fixed")
    node.show(pod, configmaps__fixed=f"={found.version}")
    await node.until_watching()
    assert await node.get(CM, "fixed") is found


async def test_a_watch_ends_with_the_last_pod_that_needs_it(node: ObjectsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a volume's object with that pod, for an object that is only read after a while."""
    monkeypatch.setattr(watched_objects, "SOON", timedelta(0))
    for name in ("shown", "read"):
        node.make("configmaps", name, data={})
    volumes = [{"name": name, "configMap": {"name": name}} for name in ("shown", "read")]
    first, second = node.bind("first", volumes=volumes), node.bind("second", volumes=volumes)
    for pod in (first, second):
        node.show(pod, configmaps__shown=(await node.get(CM, "shown")).version)
    await node.get(CM, "read")
    await node.until_watching("configmaps/shown", "configmaps/read")
    monkeypatch.setattr(watched_objects, "IDLE", timedelta(0))
    node.forget(first)
    await node.until_watching("configmaps/shown")
    node.forget(second)
    await node.until_watching()


async def test_nothing_is_read_that_the_authorizer_forbids(node: ObjectsNode) -> None:
    """A Secret that no pod of the node references: with the API server's message, and no watch keeps retrying."""
    node.make("secrets", "others", data={})
    with pytest.raises(ObjectRefused, match=r"secret others: secrets \"others\" is forbidden: .*no relationship found"):
        await node.get(SECRET, "others")
    await node.until_watching()


async def test_what_is_known_outlives_the_api_server(node: ObjectsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncached ones are refused by name; once the API server is back, waiting pods are signalled, also about changes."""
    monkeypatch.setattr(watched_object, "PACE", replace(watched_object.PACE, first_pause=0.05))
    node.make("configmaps", "app", data={"key": "one"})
    unseen = node.make("configmaps", "unseen", data={})
    volumes = [{"name": name, "configMap": {"name": name}} for name in ("app", "unseen")]
    pod = node.bind("a", volumes=volumes)
    found = await node.get(CM, "app")
    node.show(pod, configmaps__app=found.version)
    token = await node.objects.tokens.token(node.wish(pod))
    await asyncio.to_thread(node.plane.stop_apiserver)
    monkeypatch.setattr(watched_objects, "READ_WITHIN", timedelta(seconds=0.3))
    try:
        assert await node.get(CM, "app") is found
        assert await node.objects.tokens.token(node.wish(pod)) is token
        with pytest.raises(ObjectRefused, match=f"configmap {node.namespace}/unseen can't be read from https://"):
            await node.get(CM, "unseen")
        with pytest.raises(TokenRefused, match=f"failed to fetch token for service account {node.namespace}/default: "):
            await node.objects.tokens.token(node.wish(pod, "another"))
        node.show(pod, configmaps__app=found.version, configmaps__unseen="?")
    finally:
        await asyncio.to_thread(node.plane.start_apiserver)
    assert await node.heard(40) == (pod.uid, {"configmaps/unseen": unseen["metadata"]["resourceVersion"]})
    newer = node.plane.api.patch(node.path("configmaps", "app"), {"data": {"key": "two"}})
    assert await node.heard(40) == (pod.uid, {"configmaps/app": newer["metadata"]["resourceVersion"]})


async def test_kinds_of_the_whole_cluster_are_followed(node: ObjectsNode) -> None:
    """RuntimeClasses and CSIDrivers; a claim's volume can be read only if a pod of the node has it."""
    api = node.plane.api
    for path, name, content in (
        ("/apis/node.k8s.io/v1/runtimeclasses", f"{node.name}-fast", {"handler": "fast"}),
        ("/apis/storage.k8s.io/v1/csidrivers", f"{node.name}-csi", {"spec": {"attachRequired": False}}),
    ):
        api.create(path, {"metadata": {"name": name}, **content})
    found = await node.objects.source.get(ObjectKind.RUNTIME_CLASSES, "", f"{node.name}-fast")
    assert found.json["handler"] == "fast"
    driver = await node.objects.source.get(ObjectKind.CSI_DRIVERS, "", f"{node.name}-csi")
    assert driver.json["spec"]["attachRequired"] is False
    with pytest.raises(ObjectMissing):
        await node.objects.source.get(ObjectKind.CSI_DRIVERS, "", "none")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    for name in ("ours", "others"):
        node.make("persistentvolumeclaims", name, spec=claim)
    node.bind("a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "ours"}}])
    assert (await node.get(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "ours")).json["status"]["phase"] == "Pending"
    with pytest.raises(ObjectRefused, match="forbidden"):
        await node.get(ObjectKind.PERSISTENT_VOLUME_CLAIMS, "others")


async def test_a_token_is_its_pods_and_asked_for_once(node: ObjectsNode) -> None:
    """Also by two volumes at a time; another audience needs another token, if the pod's spec names it."""
    source = {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}}
    pod = node.bind("a", volumes=[{"name": "v", "projected": {"sources": [source]}}])
    first, second = await asyncio.gather(*(node.objects.tokens.token(node.wish(pod)) for _ in range(2)))
    assert first is second is await node.objects.tokens.token(node.wish(pod))
    assert node.api.tokens_asked == 1
    other = await node.objects.tokens.token(node.wish(pod, "vault", 600))
    review = {"spec": {"token": other.text, "audiences": ["vault"]}}
    said = node.plane.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert said["user"]["username"] == f"system:serviceaccount:{node.namespace}:default"
    assert said["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod.uid]
    assert other.expires - other.issued == timedelta(seconds=600)


async def test_a_token_is_renewed_before_it_is_old_and_its_pod_told(node: ObjectsNode) -> None:
    """The pod's state says when it is due, so a restarted worker knows it, too."""
    spec = {"serviceAccountName": "default"}
    pod = node.bind("a", **spec)
    old = "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z"
    node.publish(replace(pod, objects={"serviceaccounttokens/3607/": old}))
    uid, versions = await node.heard()
    fresh = await node.objects.tokens.token(node.wish(pod))
    assert (uid, versions) == (pod.uid, {"serviceaccounttokens/3607/": fresh.version})
    node.publish(replace(pod, objects=versions))
    await asyncio.sleep(0)
    assert node.api.tokens_asked == 1
    assert node.told.empty()
    node.forget(pod)
    async with asyncio.timeout(PATIENCE):
        while node.api.tokens_asked == 1:  # until the loop has noticed it
            await asyncio.sleep(0.01)
            await node.objects.tokens.token(node.wish(pod))
    assert node.api.tokens_asked == 2


async def test_a_pod_that_is_no_more_gets_no_token(node: ObjectsNode) -> None:
    """With the API server's message, which names the account."""
    pod = node.bind("a")
    gone = replace(pod, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(TokenRefused, match=f"service account {node.namespace}/default: .*UID"):
        await node.objects.tokens.token(node.wish(gone))


async def test_trust_bundles_are_followed_where_the_api_server_has_them(tmp_path: Path, node: ObjectsNode) -> None:
    """They are beta: this API server has none, one with the feature gate has; a pod that shows them is told of changes."""
    with pytest.raises(TrustBundleRefused, match="the API server has no ClusterTrustBundles"):
        await node.objects.trust_bundles.anchors({"name": "ours"})
    flags = ["--feature-gates", "ClusterTrustBundle=true,ClusterTrustBundleProjection=true"]
    served = ["--runtime-config", "certificates.k8s.io/v1beta1/clustertrustbundles=true"]
    bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"
    with ControlPlane(tmp_path, apiserver_flags=[*flags, *served]) as plane:
        async with objects_node(plane, "trusting") as trusting:
            text = (plane.pki / "ca.crt").read_text()
            plane.api.create(bundles, {"metadata": {"name": "ours"}, "spec": {"trustBundle": text}})
            source = {"name": "ours", "path": "ca.pem"}
            projected = {"sources": [{"clusterTrustBundle": source}]}
            pod = trusting.bind("a", volumes=[{"name": "v", "projected": projected}])
            found = await trusting.objects.trust_bundles.anchors(source)
            assert found.pem.decode().split() == text.split()
            trusting.publish(replace(pod, objects={"clustertrustbundles/ours": found.version}))
            other = node.plane.pki / "ca.crt"
            plane.api.patch(f"{bundles}/ours", {"spec": {"trustBundle": other.read_text()}})
            uid, versions = await trusting.heard()
            assert (uid, list(versions)) == (pod.uid, ["clustertrustbundles/ours"])
            assert (
                versions["clustertrustbundles/ours"] == (await trusting.objects.trust_bundles.anchors(source)).version
            )
