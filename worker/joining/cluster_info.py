"""Proves that a server is the cluster that a bootstrap token and CA hashes are of. Pure.

The server is untrusted until then. It publishes the ConfigMap kube-public/cluster-info: a kubeconfig with the cluster's address and CA, and for
each token a signature of it (cmd/kubeadm/app/discovery/token). The signature shows that whoever wrote it knows the token, the hash that
the CA is the expected one, and a second read, over TLS with that CA, that the server has its key. `discovery` does the reads.

One rule is stricter than kubeadm's: the second read trusts only the certificates of the CA bundle that have a given hash. With kubeadm, whoever
knows the token could add a CA of their own to the bundle.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from worker.documents.yaml_document import DocumentRefused, parse_document
from worker.joining.refusal import ClusterNotProven
from worker.joining.request import BootstrapToken

WHERE: Final = "the ConfigMap kube-public/cluster-info"
KUBECONFIG: Final = "kubeconfig"
SIGNATURE: Final = "jws-kubeconfig-"
_MOST_CERTIFICATES: Final = 64


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What cluster-info says about the cluster."""

    kubeconfig: str
    """The document that was signed."""
    server: str
    """https://host:port, without a slash at the end."""
    authority: bytes
    """The CA bundle, PEM."""


def is_signed_for(config_map: Mapping[str, Any], token: BootstrapToken) -> bool:
    """Report whether the ConfigMap has a signature by this token, right or wrong; it is added some seconds after the token."""
    return bool(_data(config_map).get(f"{SIGNATURE}{token.id}"))


def signed_by(config_map: Mapping[str, Any], token: BootstrapToken) -> ClusterInfo:
    """Check the signature, then read what it signs; raises ClusterNotProven."""
    data = _data(config_map)
    kubeconfig, signature = data.get(KUBECONFIG), data.get(f"{SIGNATURE}{token.id}")
    if not isinstance(kubeconfig, str) or not kubeconfig:
        raise ClusterNotProven(f"{WHERE} has no kubeconfig: this cluster is not set up for bootstrap tokens")
    if not isinstance(signature, str) or not signature:
        raise ClusterNotProven(
            f"{WHERE} has no signature by the token {token.id}: the token is another cluster's, or has expired, or lacks "
            "usage-bootstrap-signing; `kubeadm token create` makes a new one"
        )
    if not hmac.compare_digest(signature.encode("utf-8", "replace"), _signature(kubeconfig, token).encode()):
        raise ClusterNotProven(
            f"the signature of {WHERE} is not by the token {token.id}: the token's secret is wrong, or this server is not "
            "the cluster; do not trust it"
        )
    server, authority = _cluster(kubeconfig)
    return ClusterInfo(kubeconfig, server, authority)


def pinned(authority: bytes, hashes: frozenset[str]) -> bytes:
    """Return the certificates of a CA bundle whose public key has one of the hashes, as PEM; raises ClusterNotProven."""
    found = dict(_hashes(authority))
    if wanted := [one for one, digest in found.items() if digest in hashes]:
        return b"".join(one.public_bytes(Encoding.PEM) for one in wanted)
    theirs = ", ".join(f"sha256:{digest}" for digest in found.values())
    raise ClusterNotProven(
        f"the cluster's CA is not that of --ca-hash: {WHERE} has {theirs}; either the hash is wrong, or this server is not "
        "the cluster"
    )


def refuse_another(first: ClusterInfo, second: Mapping[str, Any]) -> None:
    """Refuse a ConfigMap that differs from the first, now read with the proven CA; raises ClusterNotProven."""
    kubeconfig = _data(second).get(KUBECONFIG)
    if not isinstance(kubeconfig, str) or kubeconfig != first.kubeconfig:
        raise ClusterNotProven(
            f"{WHERE} was another one when it was read again with the cluster's CA: something answered in the cluster's "
            "place, or it has just changed; run it again"
        )


def same_certificates(one: bytes, other: bytes) -> bool:
    """Report whether two PEM files have the same certificates, whatever the text around them; raises ClusterNotProven."""
    return {found for found, _ in _hashes(one)} == {found for found, _ in _hashes(other)}


def _signature(content: str, token: BootstrapToken) -> str:
    """Sign as k8s.io/cluster-bootstrap token/jws does: HS256, the content left out of the compact form."""
    header = _base64url(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{header}.{_base64url(_utf8(content))}".encode()
    return f"{header}..{_base64url(hmac.digest(token.secret.encode(), signed, hashlib.sha256))}"


def _utf8(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ClusterNotProven(f"the kubeconfig of {WHERE} is not text") from error


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _data(config_map: Mapping[str, Any]) -> Mapping[str, Any]:
    data = config_map.get("data")
    return data if isinstance(data, Mapping) else {}


def _cluster(kubeconfig: str) -> tuple[str, bytes]:
    """Read address and CA of the only cluster of a kubeconfig."""
    what = f"the kubeconfig of {WHERE}"
    try:
        clusters = parse_document(_utf8(kubeconfig), what).content.get("clusters")
    except DocumentRefused as error:
        raise ClusterNotProven(str(error)) from error
    if not isinstance(clusters, list) or len(clusters) != 1:
        count = len(clusters) if isinstance(clusters, list) else 0
        raise ClusterNotProven(f"{what} has {count} clusters, but it must have one")
    entry = clusters[0] if isinstance(clusters[0], Mapping) else {}
    cluster = entry.get("cluster")
    cluster = cluster if isinstance(cluster, Mapping) else {}
    server, authority = cluster.get("server"), cluster.get("certificate-authority-data")
    if not isinstance(server, str) or not server.startswith("https://"):
        raise ClusterNotProven(f"{what}: server: {str(server)[:200]!r}, but it must begin with https://")
    try:
        pem = base64.b64decode(authority if isinstance(authority, str) else "", validate=True)
    except ValueError as error:
        raise ClusterNotProven(f"{what}: certificate-authority-data: no base64") from error
    if not pem:
        raise ClusterNotProven(f"{what} has no certificate-authority-data, so the cluster's CA cannot be checked")
    return server.rstrip("/"), pem


def _hashes(authority: bytes) -> Iterator[tuple[x509.Certificate, str]]:
    """Yield each certificate with the SHA-256 of its SubjectPublicKeyInfo (DER)."""
    try:
        certificates = x509.load_pem_x509_certificates(authority)
        if len(certificates) > _MOST_CERTIFICATES:
            raise ClusterNotProven(
                f"the CA bundle has {len(certificates)} certificates: more than {_MOST_CERTIFICATES}"
            )
        for one in certificates:
            key = one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            yield one, hashlib.sha256(key).hexdigest()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ClusterNotProven(f"the CA bundle cannot be read: {error}") from error
