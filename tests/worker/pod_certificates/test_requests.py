"""Are keys, requests and answers those of the kubelet (podcertificatemanager_test.go), and are hostile answers bounded?"""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from activities.objects.pod_certificates import WantedCertificate
from activities.objects.tokens import BoundPod
from worker.pod_certificates.keys import KeyTypeUnknown, key_and_proof
from worker.pod_certificates.requests import LONGEST_CHAIN, Issued, Refused, answer, clean_chain, new_request

POD = BoundPod("shop", "web", "uid-1")
DER = bytes(range(100))
BLOCK = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(DER).decode()}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("key_type", "kind", "size"),
    [
        ("RSA3072", rsa.RSAPrivateKey, 3072),
        ("RSA4096", rsa.RSAPrivateKey, 4096),
        ("ECDSAP256", ec.EllipticCurvePrivateKey, 256),
        ("ECDSAP384", ec.EllipticCurvePrivateKey, 384),
        ("ECDSAP521", ec.EllipticCurvePrivateKey, 521),
        ("ED25519", ed25519.Ed25519PrivateKey, 0),
    ],
)
def test_the_proof_is_signed_by_the_key(key_type: str, kind: type[Any], size: int) -> None:
    """And says nothing else: no subject, no extensions."""
    pem, proof = key_and_proof(key_type)
    key = load_pem_private_key(pem, None)
    assert pem.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert isinstance(key, kind)
    assert getattr(key, "key_size", 0) == size
    request = x509.load_der_x509_csr(proof)
    assert request.is_signature_valid
    assert request.public_key() == key.public_key()
    assert (len(request.subject), len(request.extensions)) == (0, 0)


def test_an_unknown_key_type_is_refused() -> None:
    """In the kubelet's words."""
    with pytest.raises(KeyTypeUnknown, match='while generating keypair: unknown key type "DSA"'):
        key_and_proof("DSA")


@pytest.mark.parametrize(
    ("source", "more"),
    [
        pytest.param({}, {}, id="as-little-as-possible"),
        pytest.param({"maxExpirationSeconds": 3600}, {"maxExpirationSeconds": 3600}, id="with-a-lifetime"),
        pytest.param(
            {"userAnnotations": {"a.example/b": "c"}},
            {"unverifiedUserAnnotations": {"a.example/b": "c"}},
            id="with-annotations",
        ),
    ],
)
def test_a_request_names_pod_account_and_node(source: dict[str, Any], more: dict[str, Any]) -> None:
    """By name and uid, and belongs to the pod."""
    wanted = WantedCertificate(
        POD, "default", "creds", 0, {"signerName": "a.example/s", "keyType": "ED25519", **source}
    )
    made = new_request(wanted, service_account_uid="uid-2", node=("n", "uid-3"), proof=b"proof")
    assert made["metadata"] == {
        "namespace": "shop",
        "generateName": "req-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-1"}],
    }
    assert made["spec"] == {
        "signerName": "a.example/s",
        "podName": "web",
        "podUID": "uid-1",
        "serviceAccountName": "default",
        "serviceAccountUID": "uid-2",
        "nodeName": "n",
        "nodeUID": "uid-3",
        "stubPKCS10Request": base64.b64encode(b"proof").decode(),
        **more,
    }


def status(kind: str, **more: Any) -> dict[str, Any]:
    """Build a request that was answered."""
    return {"status": {"conditions": [{"type": kind, "reason": "Why", "message": "because"}], **more}}


TIMES = {"beginRefreshAt": "2026-01-01T00:00:00Z", "notAfter": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param({}, None, id="no-status"),
        pytest.param({"status": {"conditions": None}}, None, id="no-conditions"),
        pytest.param(status("Approved"), None, id="an-unknown-condition"),
        pytest.param(status("Denied"), Refused("Denied", "Why", "because"), id="denied"),
        pytest.param(status("Failed"), Refused("Failed", "Why", "because"), id="failed"),
        pytest.param(
            status("Issued", certificateChain=BLOCK, **TIMES),
            Issued(
                BLOCK.replace("+", "+").encode(), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
            ),
            id="issued",
        ),
    ],
)
def test_an_answer_is_read(request_: dict[str, Any], expected: object) -> None:
    """By the first condition that ends it."""
    found = answer(request_)
    if isinstance(expected, Issued):
        assert isinstance(found, Issued)
        assert (found.begin_refresh_at, found.not_after) == (expected.begin_refresh_at, expected.not_after)
        assert base64.b64decode(b"".join(found.chain.split(b"\n")[1:-2])) == DER
    else:
        assert found == expected


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"certificateChain": BLOCK}, id="no-times"),
        pytest.param({"certificateChain": BLOCK, **TIMES, "notAfter": "soon"}, id="no-time"),
        pytest.param({"certificateChain": "x" * (LONGEST_CHAIN + 1), **TIMES}, id="too-long"),
    ],
)
def test_a_malformed_answer_is_none(broken: dict[str, Any]) -> None:
    """It is not taken for a certificate."""
    with pytest.raises((ValueError, KeyError)):
        answer(status("Issued", **broken))


def test_words_of_a_signer_are_cut() -> None:
    """They come into events and messages."""
    found = answer({"status": {"conditions": [{"type": "Denied", "reason": "x" * 5000, "message": "y" * 5000}]}})
    assert isinstance(found, Refused)
    assert (len(found.reason), len(found.message)) == (1024, 1024)


LINES = clean_chain(BLOCK)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param(BLOCK * 2, 2, id="two"),
        pytest.param(f"leaf of web\n{BLOCK}root\n{BLOCK}", 2, id="words-between"),
        pytest.param(BLOCK.replace("\n", "\r\n"), 1, id="of-windows"),
        pytest.param(BLOCK.replace("-----\n", "-----\nProc-Type: 4\nDEK-Info: x\n\n", 1), 1, id="headers"),
        pytest.param(BLOCK.replace("CERTIFICATE", "X509 CERTIFICATE"), 1, id="another-name"),
        pytest.param(BLOCK.replace("-----END CERTIFICATE", "-----END KEY"), 0, id="an-end-of-another"),
        pytest.param("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", 0, id="no-base64"),
        pytest.param("-----BEGIN A-----\n" * 15_000, 0, id="blocks-without-an-end"),
    ],
)
def test_only_certificates_are_left_of_a_chain(text: str, count: int) -> None:
    """As by the kubelet, which re-encodes each block."""
    assert clean_chain(text) == LINES * count
