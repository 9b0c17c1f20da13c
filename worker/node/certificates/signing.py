"""The content of certificate requests, and the time of renewal. Pure except for key generation.

Subjects and usages are the kubelet's (pkg/kubelet/certificate, client-go util/certificate), because the API server's signers
and NodeRestriction check them.
"""

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from worker.node.certificates.store import Pair

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER: Final = "kubernetes.io/kubelet-serving"
_DNS: Final = frozenset({"InternalDNS", "ExternalDNS"})
_IP: Final = frozenset({"InternalIP", "ExternalIP"})


@dataclass(frozen=True, slots=True)
class DesiredCertificate:
    """A certificate that the node needs."""

    signer: str
    common_name: str
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def serving(self) -> bool:
        """Report whether it is the serving certificate, not the client certificate."""
        return self.signer == SERVING_SIGNER


def client_certificate(node: str) -> DesiredCertificate:
    """Return the node's client certificate to request."""
    return DesiredCertificate(CLIENT_SIGNER, f"system:node:{node}")


def serving_certificate(node: str, addresses: Iterable[Mapping[str, Any]]) -> DesiredCertificate | None:
    """Return the serving certificate to request for the addresses in the node's status; None without addresses."""
    names, ips = set(), set()
    for one in addresses:
        kind, address = one.get("type"), str(one.get("address") or "")
        if kind == "Hostname" or kind in _IP:
            ip = _ip(address)
            if ip:
                ips.add(ip)
            elif kind == "Hostname" and address:
                names.add(address)
        elif kind in _DNS and address:
            names.add(address)
    if not names and not ips:
        return None
    return DesiredCertificate(SERVING_SIGNER, f"system:node:{node}", tuple(sorted(names)), tuple(sorted(ips)))


def new_key() -> bytes:
    """Generate a P-256 key as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def request_for(wanted: DesiredCertificate, key: bytes) -> dict[str, Any]:
    """Return the CertificateSigningRequest object for a certificate and its key."""
    private = load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, wanted.common_name),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    others: list[x509.GeneralName] = [x509.DNSName(name) for name in wanted.names]
    others += [x509.IPAddress(ipaddress.ip_address(address)) for address in wanted.addresses]
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    request = builder.sign(private, hashes.SHA256()).public_bytes(Encoding.PEM)
    usages = ["digital signature", *(["key encipherment"] if isinstance(private, rsa.RSAPrivateKey) else [])]
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": wanted.signer,
            "usages": [*usages, "server auth" if wanted.serving else "client auth"],
        },
    }


def satisfies(pair: Pair, wanted: DesiredCertificate) -> bool:
    """Report whether a certificate covers everything desired; additional names are no reason to renew it."""
    found = {one.value for one in pair.leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
    groups = {one.value for one in pair.leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    names: set[str] = set()
    addresses: set[str] = set()
    try:
        others = pair.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        pass
    else:
        names = set(others.get_values_for_type(x509.DNSName))
        addresses = {str(one) for one in others.get_values_for_type(x509.IPAddress)}
    return (
        wanted.common_name in found
        and "system:nodes" in groups
        and names >= set(wanted.names)
        and addresses >= set(wanted.addresses)
    )


def renew_at(pair: Pair | None, wanted: DesiredCertificate, now: datetime, chance: float) -> datetime:
    """Return when the certificate is to be replaced: at 70 to 90 % of its lifetime, depending on `chance` (0 to 1).

    Immediately if there is none, if it has expired, or if it does not cover what is desired.
    """
    if pair is None or not satisfies(pair, wanted) or now >= pair.not_after:
        return now
    return pair.not_before + (pair.not_after - pair.not_before) * (0.7 + 0.2 * chance)


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
