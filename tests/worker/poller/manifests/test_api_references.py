"""Can a manifest of a cluster's node read, by the node's credentials, what its writer may not?"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker.poller.manifests.api_references import api_references
from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.static_pod import Refused, StaticPod

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MEMBER, ALONE = NodeOfManifests("n1", cluster=True), NodeOfManifests("n1")
FILES = {"path": "p", "expirationSeconds": 600}


def manifest(container: dict[str, Any] | None = None, **spec: Any) -> bytes:
    """Write a manifest."""
    one = {"name": "web", "image": "busybox:1", **(container or {})}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [one], **spec}}
    return json.dumps(whole).encode()


def volume(**source: Any) -> dict[str, Any]:
    """Write one volume."""
    return {"volumes": [{"name": "v", **source}]}


def variable(field: str) -> dict[str, Any]:
    """Write a variable from an object."""
    return {"env": [{"name": "A", "valueFrom": {field: {"name": "db", "key": "pw"}}}]}


@pytest.mark.parametrize(
    ("data", "path", "objects"),
    [
        pytest.param(manifest(imagePullSecrets=[{"name": "r"}]), "imagePullSecrets[0]", "secrets", id="pull-secret"),
        pytest.param(
            manifest({"envFrom": [{"secretRef": {"name": "db"}}]}),
            "containers[0].envFrom[0].secretRef",
            "secrets",
            id="all-variables-of-a-secret",
        ),
        pytest.param(
            manifest({"envFrom": [{"configMapRef": {"name": "c", "optional": True}}]}),
            "containers[0].envFrom[0].configMapRef",
            "configmaps",
            id="an-optional-configmap",
        ),
        pytest.param(
            manifest(initContainers=[{"name": "i", "image": "b:1", **variable("secretKeyRef")}]),
            "initContainers[0].env[0].valueFrom.secretKeyRef",
            "secrets",
            id="a-variable-of-an-init-container",
        ),
        pytest.param(
            manifest(variable("configMapKeyRef")),
            "containers[0].env[0].valueFrom.configMapKeyRef",
            "configmaps",
            id="a-variable-of-a-configmap",
        ),
        pytest.param(
            manifest(**volume(secret={"secretName": "db"})), "volumes[0].secret", "secrets", id="a-secret-volume"
        ),
        pytest.param(
            manifest(**volume(configMap={"name": "c"})), "volumes[0].configMap", "configmaps", id="a-configmap-volume"
        ),
        pytest.param(
            manifest(**volume(projected={"sources": [{"secret": {"name": "db"}}]})),
            "volumes[0].projected.sources[0].secret",
            "secrets",
            id="a-projected-secret",
        ),
        pytest.param(
            manifest(**volume(projected={"sources": [{"configMap": {"name": "c"}}]})),
            "volumes[0].projected.sources[0].configMap",
            "configmaps",
            id="a-projected-configmap",
        ),
        pytest.param(manifest(serviceAccountName="robot"), "serviceAccountName", "serviceaccounts", id="an-account"),
    ],
)
def test_a_reference_in_a_cluster(data: bytes, path: str, objects: str) -> None:
    """The pod is refused by the field's path, as by the kubelet."""
    refused = read_manifest(Path("/m/web.yaml"), data, MEMBER, NOW)
    assert isinstance(refused, Refused)
    assert refused.message == f"spec.{path}: Forbidden: static pods may not reference {objects}"


@pytest.mark.parametrize(
    ("spec", "objects"),
    [
        pytest.param(volume(csi={"driver": "d"}), "csidrivers", id="csi"),
        pytest.param(volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims", id="claim"),
        pytest.param(volume(ephemeral={}), "persistentvolumeclaims", id="ephemeral"),
        pytest.param(volume(glusterfs={}), "endpoints", id="glusterfs"),
        pytest.param(volume(azureFile={"secretName": "s"}), "secrets", id="azure-file"),
        pytest.param(volume(rbd={"secretRef": {"name": "s"}}), "secrets", id="a-volume-that-logs-in"),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "resourceclaims", id="a-resource-claim"),
        pytest.param(volume(projected={"sources": [{"serviceAccountToken": FILES}]}), "serviceaccounts", id="token"),
        pytest.param(volume(projected={"sources": [{"clusterTrustBundle": {}}]}), "clustertrustbundles", id="bundle"),
        pytest.param(volume(projected={"sources": [{"podCertificate": {}}]}), "podcertificates", id="certificate"),
    ],
)
def test_a_kind_that_no_manifest_may_use_today(spec: dict[str, Any], objects: str) -> None:
    """It stays refused in a cluster when tempolet learns the field."""
    (found,) = api_references(spec, cluster=True)
    assert found.endswith(f"static pods may not reference {objects}")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(manifest(imagePullSecrets=[{}]), id="an-empty-name"),
        pytest.param(manifest(**volume(hostPath={"path": "/"})), id="a-host-path"),
        pytest.param(
            manifest(
                **volume(
                    projected={
                        "sources": [
                            {
                                "downwardAPI": {
                                    "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}],
                                }
                            }
                        ]
                    }
                )
            ),
            id="the-pods-own-fields",
        ),
    ],
)
def test_no_reference(data: bytes) -> None:
    """Whatever needs no API is taken."""
    assert isinstance(read_manifest(Path("/m/web.yaml"), data, MEMBER, NOW), StaticPod)


def test_a_standalone_node_has_its_own_objects() -> None:
    """They lie in its objects folder, so its manifests may refer to them."""
    data = manifest(variable("secretKeyRef"), **volume(configMap={"name": "c"}))
    assert isinstance(read_manifest(Path("/m/web.yaml"), data, ALONE, NOW), StaticPod)
