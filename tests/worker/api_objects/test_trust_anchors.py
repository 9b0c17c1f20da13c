"""Does a projection select the right certificates, and report why there are none? (clustertrustbundle_manager_test.go)"""

import base64
from typing import Any

import pytest

from activities.objects.objects import StoredObject
from activities.objects.trust_bundles import TrustBundleRefused
from worker.api_objects.trust_anchors import anchors, matches, merge_bundles


def pem(body: bytes) -> str:
    """Format bytes as a PEM certificate."""
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(body).decode()}\n-----END CERTIFICATE-----\n"


def bundle(text: str, signer: str = "", version: str = "1", **labels: str) -> StoredObject:
    """Build a ClusterTrustBundle."""
    return StoredObject(version, {"metadata": {"labels": labels}, "spec": {"signerName": signer, "trustBundle": text}})


A, B = b"a" * 60, b"b" * 60
BUNDLES = {
    "plain": bundle(pem(A) + pem(A)),
    "s:a": bundle(pem(A), "x.io/s", tier="one"),
    "s:b": bundle("text between\n" + pem(B) + pem(A), "x.io/s", tier="two"),
    "t:a": bundle(pem(B), "x.io/t", tier="one"),
}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param({"name": "plain"}, [A], id="by-name-each-once"),
        pytest.param({"name": "none", "optional": True}, [], id="a-missing-one-that-may-miss"),
        pytest.param({"signerName": "x.io/s", "labelSelector": {}}, [A, B], id="all-of-a-signer"),
        pytest.param(
            {"signerName": "x.io/s", "labelSelector": {"matchLabels": {"tier": "one"}}}, [A], id="some-of-a-signer"
        ),
        pytest.param({"signerName": "x.io/s", "optional": True}, [], id="no-selector-chooses-nothing"),
    ],
)
def test_what_is_chosen(source: dict[str, Any], found: list[bytes]) -> None:
    """Each certificate once, in a stable order."""
    text = anchors(source, BUNDLES).pem
    assert text == merge_bundles(map(pem, found)) == merge_bundles(map(pem, reversed(found)))
    assert text.count(b"BEGIN CERTIFICATE") == len(found)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(
            {"name": "none"},
            'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found',
            id="a-missing-one",
        ),
        pytest.param(
            {"signerName": "x.io/u", "labelSelector": {}},
            "combination of signerName and labelSelector matched zero ClusterTrustBundles",
            id="a-signer-that-has-none",
        ),
    ],
)
def test_what_is_missing(source: dict[str, Any], words: str) -> None:
    """In the kubelet's words."""
    with pytest.raises(TrustBundleRefused) as refused:
        anchors(source, BUNDLES)
    assert str(refused.value) == words


def test_a_version_follows_what_is_chosen() -> None:
    """And of nothing else: another signer's bundle may change."""
    source = {"signerName": "x.io/s", "labelSelector": {}}
    before = anchors(source, BUNDLES).version
    assert anchors(source, {**BUNDLES, "t:a": bundle(pem(A), "x.io/t", "2")}).version == before
    assert anchors(source, {**BUNDLES, "s:a": bundle(pem(A), "x.io/s", "2")}).version != before


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"key": "tier", "operator": "In", "values": ["one"]}, True),
        ({"key": "tier", "operator": "NotIn", "values": ["one"]}, False),
        ({"key": "none", "operator": "NotIn", "values": ["one"]}, True),
        ({"key": "tier", "operator": "Exists"}, True),
        ({"key": "tier", "operator": "DoesNotExist"}, False),
    ],
)
def test_a_label_selector(expression: dict[str, Any], holds: bool) -> None:
    """By the API's rules."""
    assert matches({"matchExpressions": [expression]}, {"tier": "one"}) is holds
