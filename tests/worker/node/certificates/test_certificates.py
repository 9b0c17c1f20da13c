"""Are the node's certificates requested, stored and rotated as by the kubelet?"""

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from worker.node.certificates.bootstrap import pending_key
from worker.node.certificates.request import NotIssued, issued_by
from worker.node.certificates.signing import (
    SERVING_SIGNER,
    DesiredCertificate,
    client_certificate,
    new_key,
    renew_at,
    request_for,
    satisfies,
    serving_certificate,
)
from worker.node.certificates.store import CLIENT, CertificateStore, Pair, StoreRefused, read_pair

START = datetime(2026, 1, 1, tzinfo=UTC)
LIFE = timedelta(days=100)


def signed(wanted: DesiredCertificate, key: bytes, *, start: datetime = START, life: timedelta = LIFE) -> bytes:
    """Return a self-signed certificate."""
    private = load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, wanted.common_name),
        ]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + life)
    )
    others: list[x509.GeneralName] = [x509.DNSName(one) for one in wanted.names]
    others += [x509.IPAddress(ipaddress.ip_address(one)) for one in wanted.addresses]
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    return builder.sign(private, hashes.SHA256()).public_bytes(Encoding.PEM)


def pair(wanted: DesiredCertificate) -> Pair:
    """Return a certificate with its key."""
    key = new_key()
    return read_pair(signed(wanted, key) + key)


ADDRESSES: dict[str, tuple[list[dict[str, str]], tuple[str, ...], tuple[str, ...]]] = {
    "a name and an address": (
        [{"type": "InternalIP", "address": "10.0.0.2"}, {"type": "Hostname", "address": "n1"}],
        ("n1",),
        ("10.0.0.2",),
    ),
    "a hostname that is an address": ([{"type": "Hostname", "address": "10.0.0.2"}], (), ("10.0.0.2",)),
    "DNS names": (
        [{"type": "ExternalDNS", "address": "b.example"}, {"type": "InternalDNS", "address": "a.example"}],
        ("a.example", "b.example"),
        (),
    ),
    "both families, one of them twice": (
        [
            {"type": kind, "address": one}
            for kind, one in (("InternalIP", "::1"), ("ExternalIP", "10.0.0.2"), ("InternalIP", "10.0.0.2"))
        ],
        (),
        ("10.0.0.2", "::1"),
    ),
    "what is no address": (
        [{"type": "InternalIP", "address": "n1"}, {"type": "Hostname", "address": "n1"}],
        ("n1",),
        (),
    ),
}


@pytest.mark.parametrize("row", ADDRESSES)
def test_the_serving_certificate_is_for_the_nodes_addresses(row: str) -> None:
    """pkg/kubelet/certificate/kubelet.go addressesToHostnamesAndIPs."""
    addresses, names, ips = ADDRESSES[row]
    wanted = serving_certificate("n1", addresses)
    assert wanted is not None
    assert (wanted.names, wanted.addresses) == (names, ips)


def test_without_an_address_no_serving_certificate_is_asked_for() -> None:
    """The signer would refuse it."""
    assert serving_certificate("n1", []) is None
    assert serving_certificate("n1", [{"type": "InternalIP", "address": ""}]) is None


def test_a_request_is_what_the_signers_take() -> None:
    """Subject, usages and signer, by which kube-controller-manager approves and signs."""
    client = request_for(client_certificate("n1"), new_key())
    assert client["spec"]["usages"] == ["digital signature", "client auth"]
    wanted = serving_certificate("n1", [{"type": "InternalIP", "address": "10.0.0.2"}])
    assert wanted is not None
    serving = request_for(wanted, new_key())
    assert serving["spec"]["usages"] == ["digital signature", "server auth"]
    assert serving["spec"]["signerName"] == SERVING_SIGNER


WANTED = DesiredCertificate(SERVING_SIGNER, "system:node:n1", ("a", "b"), ("10.0.0.2",))
RENEWALS: dict[str, tuple[Pair | None, DesiredCertificate, datetime, datetime]] = {
    "there is none": (None, WANTED, START, START),
    "young": (pair(WANTED), WANTED, START, START + 0.8 * LIFE),
    "over": (pair(WANTED), WANTED, START + LIFE, START + LIFE),
    "for more than is wanted": (
        pair(WANTED),
        DesiredCertificate(SERVING_SIGNER, "system:node:n1", ("a",)),
        START,
        START + 0.8 * LIFE,
    ),
    "not for an address that the node has got": (
        pair(WANTED),
        DesiredCertificate(SERVING_SIGNER, "system:node:n1", ("a", "b"), ("10.0.0.2", "10.0.0.3")),
        START,
        START,
    ),
    "of another node": (pair(WANTED), DesiredCertificate(SERVING_SIGNER, "system:node:n2", ("a",)), START, START),
}


@pytest.mark.parametrize("row", RENEWALS)
def test_when_a_certificate_is_renewed(row: str) -> None:
    """Between 70 and 90 % of its lifetime, or at once if it does not cover what is desired."""
    found, wanted, now, due = RENEWALS[row]
    assert abs(renew_at(found, wanted, now, 0.5) - due) < timedelta(seconds=1)


def test_renewals_of_many_nodes_are_spread() -> None:
    """Nodes created at the same time do not all renew at the same time."""
    found = pair(WANTED)
    assert renew_at(found, WANTED, START, 0.0) == START + 0.7 * LIFE
    assert renew_at(found, WANTED, START, 1.0) == START + 0.9 * LIFE


def test_a_new_pair_takes_the_place_of_the_old_one_at_once(tmp_path: Path) -> None:
    """By a link, as in the kubelet's store; nobody else can read the key."""
    store = CertificateStore(tmp_path / "pki", CLIENT)
    assert store.current() is None
    wanted = client_certificate("n1")
    for second in (1, 2):
        key = new_key()
        new = store.update(signed(wanted, key), key, START + timedelta(seconds=second))
        current = store.current()
        assert current is not None
        assert current.leaf == new.leaf
        assert satisfies(current, wanted)
    assert os.readlink(store.current_path).endswith("kubelet-client-2026-01-01-00-00-02.pem")  # noqa: PTH115 - the text of the link
    assert store.current_path.stat().st_mode & 0o777 == 0o600


def test_a_switch_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    """The kubelet removes the old link before it renames the new one."""
    store = CertificateStore(tmp_path, CLIENT)
    key = new_key()
    store.update(signed(client_certificate("n1"), key), key, START)
    store.current_path.rename(tmp_path / f"{CLIENT}-updated.pem")
    assert store.current() is not None


BROKEN = {
    "no PEM": b"nothing",
    "no key": signed(WANTED, new_key()),
    "another's key": signed(WANTED, new_key()) + new_key(),
}


@pytest.mark.parametrize("row", BROKEN)
def test_a_pair_that_does_not_fit_is_refused(tmp_path: Path, row: str) -> None:
    """Neither stored as the new one nor read as the current one."""
    store = CertificateStore(tmp_path, CLIENT)
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        read_pair(BROKEN[row])
    store.current_path.write_bytes(BROKEN[row])
    with pytest.raises(StoreRefused, match="remove it"):
        store.current()
    key = new_key()
    with pytest.raises(StoreRefused, match="a file, where a link belongs"):
        store.update(signed(WANTED, key), key, START)


DECISIONS: dict[str, tuple[dict[str, Any], bytes | str]] = {
    "nobody has decided": ({}, b""),
    "approved, not issued": ({"conditions": [{"type": "Approved"}]}, b""),
    "issued": ({"conditions": [{"type": "Approved"}], "certificate": "UEVN"}, b"PEM"),
    "a certificate without an approval": ({"certificate": "UEVN"}, b""),
    "denied": ({"conditions": [{"type": "Denied", "message": "not you"}]}, "was denied: not you"),
    "failed": (
        {"conditions": [{"type": "Approved"}, {"type": "Failed", "reason": "SignerValidationFailure"}]},
        "SignerValidationFailure",
    ),
}


@pytest.mark.parametrize("row", DECISIONS)
def test_what_becomes_of_a_request(row: str) -> None:
    """A denied request is reported with its reason."""
    status, due = DECISIONS[row]
    request = {"metadata": {"name": "csr-1"}, "status": status}
    if isinstance(due, bytes):
        assert issued_by(request) == due
    else:
        with pytest.raises(NotIssued, match=due):
            issued_by(request)


def test_a_key_is_kept_until_a_certificate_has_come(tmp_path: Path) -> None:
    """So that a node which restarts meanwhile continues with the same key."""
    path = tmp_path / "pki" / "kubelet-client.key.tmp"
    first = pending_key(path)
    assert pending_key(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"torn")
    assert pending_key(path) != first
