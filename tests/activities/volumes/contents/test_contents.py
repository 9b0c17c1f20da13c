"""Does a volume hold the files that the kubelet would write (configmap_test.go, secret_test.go, …_test.go)?"""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.files.atomic_writer import ProjectedFile
from activities.objects.objects import ObjectKind, StoredObject
from activities.objects.pod_certificates import PodCertificate
from activities.objects.tokens import ServiceAccountToken
from activities.objects.trust_bundles import TrustAnchors
from activities.volumes.contents.contents import Known, Reference, files_of, references
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.kubernetes.resources.quantity import parse_quantity

POD: dict[str, Any] = {
    "metadata": {
        "name": "web-node-1",
        "namespace": "shop",
        "uid": "uid-1",
        "labels": {"tier": "front", "app": "web"},
        "annotations": {"note": 'say "hi"\n'},
    },
    "spec": {
        "containers": [
            {"name": "limited", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "1m"}}},
            {"name": "free"},
        ],
        "initContainers": [{"name": "first", "resources": {"limits": {"cpu": "2"}}}],
    },
}
ALLOCATABLE = {"cpu": parse_quantity("4"), "memory": parse_quantity("8Gi")}
CONFIG_MAP = StoredObject(
    "7", {"data": {"foo": "foo", "bar": "bar"}, "binaryData": {"blob": base64.b64encode(b"\0\xff").decode()}}
)
SECRET = StoredObject(
    "9", {"data": {"user": base64.b64encode(b"me").decode(), "raw": base64.b64encode(b"\xff").decode()}}
)
ISSUED = datetime(2026, 11, 22, 12, tzinfo=UTC)
MISSING = 'configmap "gone" not found'
KNOWN = Known(
    {"configmaps/cm": CONFIG_MAP, "secrets/db": SECRET, "configmaps/gone": MISSING, "secrets/gone": MISSING},
    POD,
    ALLOCATABLE,
    {
        "serviceaccounttokens/3600/": ServiceAccountToken("t0ken", ISSUED, ISSUED + timedelta(hours=1)),
        "serviceaccounttokens/3600/vault": "failed to fetch token: no such account",
    },
    {"clustertrustbundles/ours": TrustAnchors("7", b"anchors"), "clustertrustbundles/gone": "no such bundle"},
    {0: PodCertificate(b"key\n", b"chain\n"), 1: "credential bundle is not issued yet"},
)
TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}], "defaultMode": 0o644}
BUNDLE = {"sources": [{"clusterTrustBundle": {"path": "ca.pem", "name": "ours"}}], "defaultMode": 0o644}
CERTIFICATE = {"sources": [{"podCertificate": {"credentialBundlePath": "all.pem"}}], "defaultMode": 0o644}


def shown(kind: str, source: dict[str, Any]) -> dict[str, tuple[bytes, int]]:
    """Build a volume's files: content and mode by path."""
    return {path: (file.data, file.mode) for path, file in files_of(kind, source, KNOWN).items()}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        pytest.param(
            {"name": "cm", "defaultMode": 0o400},
            {"foo": (b"foo", 0o400), "bar": (b"bar", 0o400), "blob": (b"\0\xff", 0o400)},
            id="all-keys-both-kinds-of-data",
        ),
        pytest.param(
            {"name": "cm", "items": [{"key": "foo", "path": "path/to/foo.txt"}]},
            {"path/to/foo.txt": (b"foo", 0o644)},
            id="one-key-under-another-path",
        ),
        pytest.param(
            {"name": "cm", "defaultMode": 0o644, "items": [{"key": "blob", "path": "b", "mode": 0o777}]},
            {"b": (b"\0\xff", 0o777)},
            id="binary-data-with-a-mode-of-its-own",
        ),
        pytest.param(
            {"name": "cm", "items": [{"key": "foo", "path": "a"}, {"key": "foo", "path": "b", "mode": 0}]},
            {"a": (b"foo", 0o644), "b": (b"foo", 0)},
            id="one-key-twice-and-mode-zero-is-a-mode",
        ),
        pytest.param(
            {"name": "cm", "optional": True, "items": [{"key": "gone", "path": "x"}, {"key": "bar", "path": "b"}]},
            {"b": (b"bar", 0o644)},
            id="an-optional-key-that-is-not-there",
        ),
        pytest.param({"name": "gone", "optional": True}, {}, id="an-optional-object-that-is-not-there"),
        pytest.param(
            {"name": "gone", "optional": True, "items": [{"key": "k", "path": "p"}]}, {}, id="the-same-with-items"
        ),
    ],
)
def test_a_config_map_volume(source: dict[str, Any], files: dict[str, tuple[bytes, int]]) -> None:
    """Keys, paths and modes."""
    assert shown("configMap", source) == files


def test_a_secret_volume() -> None:
    """Bytes are unchanged."""
    assert shown("secret", {"secretName": "db", "defaultMode": 0o400}) == {
        "user": (b"me", 0o400),
        "raw": (b"\xff", 0o400),
    }
    assert shown("secret", {"secretName": "db", "items": [{"key": "user", "path": "u/n"}]}) == {"u/n": (b"me", 0o644)}


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        pytest.param("configMap", {"name": "gone"}, MISSING, id="no-config-map"),
        pytest.param(
            "configMap",
            {"name": "cm", "items": [{"key": "nope", "path": "p"}]},
            "configmap references non-existent config key: nope (ConfigMap shop/cm)",
            id="no-config-key",
        ),
        pytest.param(
            "secret",
            {"secretName": "db", "items": [{"key": "nope", "path": "p"}]},
            "references non-existent secret key: nope (Secret shop/db)",
            id="no-secret-key",
        ),
        pytest.param(
            "downwardAPI",
            {"items": [{"path": "p", "fieldRef": {"fieldPath": "spec.nodeName"}}]},
            "unsupported fieldPath: spec.nodeName",
            id="no-field-of-a-file",
        ),
        pytest.param(
            "downwardAPI",
            {
                "items": [
                    {"path": "p", "resourceFieldRef": {"containerName": "who", "resource": "limits.cpu"}},
                    {"path": "q", "fieldRef": {"fieldPath": "metadata.nope"}},
                ]
            },
            "[container who not found, unsupported fieldPath: metadata.nope]",
            id="two-faults-at-once",
        ),
        pytest.param(
            "projected",
            {
                "sources": [
                    {"configMap": {"name": "gone"}},
                    {"secret": {"name": "db", "items": [{"key": "nope", "path": "p"}]}},
                    {"configMap": {"name": "gone"}},
                ]
            },
            f"[{MISSING}, references non-existent secret key: nope (Secret shop/db)]",
            id="faults-of-several-sources-each-once",
        ),
        pytest.param(
            "projected",
            {"sources": [{"serviceAccountToken": {"path": "token", "audience": "vault"}}]},
            "failed to fetch token: no such account",
            id="a-token",
        ),
        pytest.param(
            "projected",
            {"sources": [{"clusterTrustBundle": {"path": "ca.pem", "name": "gone"}}]},
            "no such bundle",
            id="a-trust-bundle",
        ),
        pytest.param(
            "projected",
            {"sources": [{}, {"podCertificate": {"keyPath": "key"}}]},
            "credential bundle is not issued yet",
            id="a-certificate-of-the-pod",
        ),
    ],
)
def test_what_is_missing_is_told_in_the_kubelets_words(kind: str, source: dict[str, Any], words: str) -> None:
    """Everything at once."""
    with pytest.raises(VolumeFailed) as caught:
        shown(kind, source)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("owner", "has_group", "mode"),
    [
        pytest.param(None, False, 0o644, id="everybodys-where-several-users-run"),
        pytest.param(None, True, 0o600, id="the-groups-gets-its-rights-when-it-is-written"),
        pytest.param(1000, False, 0o600, id="the-users-who-runs-all-containers"),
        pytest.param(0, True, 0o600, id="also-where-that-is-root"),
    ],
)
@pytest.mark.parametrize(
    ("source", "path", "data"),
    [(TOKEN, "token", b"t0ken"), (BUNDLE, "ca.pem", b"anchors"), (CERTIFICATE, "all.pem", b"key\nchain\n")],
    ids=["token", "bundle", "certificate"],
)
def test_a_credential_is_nobodys_but_the_containers(
    source: dict[str, Any], path: str, data: bytes, owner: int | None, has_group: bool, mode: int
) -> None:
    """The kubelet's modes."""
    known = replace(KNOWN, owner=owner, has_group=has_group)
    assert files_of("projected", source, known) == {path: ProjectedFile(data, mode, owner)}


def told(**item: Any) -> str:
    """Build the single file of a downwardAPI volume."""
    [(data, mode)] = shown("downwardAPI", {"defaultMode": 0o640, "items": [{"path": "dir//file", **item}]}).values()
    assert mode == 0o640
    return data.decode()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("metadata.name", "web-node-1"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels", 'app="web"\ntier="front"'),
        ("metadata.annotations", 'note="say \\"hi\\"\\n"'),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['note']", 'say "hi"\n'),
        ("metadata.labels['absent']", ""),
    ],
)
def test_a_file_tells_a_field(field: str, text: str) -> None:
    """Maps line by line, sorted by key; the value of a single key unchanged."""
    assert told(fieldRef={"apiVersion": "v1", "fieldPath": field}) == text


@pytest.mark.parametrize(
    ("container", "resource", "divisor", "text"),
    [
        pytest.param("limited", "limits.cpu", None, "2", id="cpu-is-rounded-up"),
        pytest.param("limited", "limits.cpu", "1m", "1500", id="cpu-in-thousandths"),
        pytest.param("limited", "limits.memory", "1Mi", "64", id="memory-in-mebibytes"),
        pytest.param("limited", "requests.cpu", "1m", "1", id="a-request"),
        pytest.param("free", "limits.memory", "1Gi", "8", id="no-limit-is-what-the-node-has"),
        pytest.param("free", "limits.cpu", None, "4", id="no-cpu-limit-neither"),
        pytest.param("free", "requests.cpu", None, "0", id="no-request-is-none"),
        pytest.param("first", "limits.cpu", "1", "2", id="an-init-container"),
    ],
)
def test_a_file_tells_a_resource(container: str, resource: str, divisor: str | None, text: str) -> None:
    """The node's allocatable stands in for a missing limit."""
    selector = {"containerName": container, "resource": resource} | ({"divisor": divisor} if divisor else {})
    assert told(resourceFieldRef=selector) == text


def test_a_projected_volume_puts_everything_together() -> None:
    """If two sources have the same path, the later one wins; items have modes of their own."""
    source = {
        "defaultMode": 0o440,
        "sources": [
            {"configMap": {"name": "cm"}},
            {"secret": {"name": "db", "items": [{"key": "user", "path": "foo", "mode": 0o400}]}},
            {"downwardAPI": {"items": [{"path": "meta/name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"secret": {"name": "gone", "optional": True}},
        ],
    }
    assert shown("projected", source) == {
        "foo": (b"me", 0o400),
        "bar": (b"bar", 0o440),
        "blob": (b"\0\xff", 0o440),
        "meta/name": (b"web-node-1", 0o440),
    }
    assert list(references("projected", source)) == [
        Reference(ObjectKind.CONFIG_MAPS, "cm"),
        Reference(ObjectKind.SECRETS, "db"),
        Reference(ObjectKind.SECRETS, "gone", optional=True),
    ]


def test_an_empty_volume_is_empty() -> None:
    """Without items or sources."""
    assert shown("downwardAPI", {}) == shown("projected", {}) == {}


def test_a_key_and_its_certificates_are_written_apart_and_together() -> None:
    """Where there are paths for them."""
    paths = {"credentialBundlePath": "all.pem", "keyPath": "own/key.pem", "certificateChainPath": "own/chain.pem"}
    assert shown("projected", {"sources": [{"podCertificate": paths}]}) == {
        "all.pem": (b"key\nchain\n", 0o644),
        "own/key.pem": (b"key\n", 0o644),
        "own/chain.pem": (b"chain\n", 0o644),
    }
