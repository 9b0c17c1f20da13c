"""The certificate that the node's API serves with: the operator's, one signed by the cluster, or a self-signed one.

The order is the kubelet's (cmd/kubelet/app InitializeTLS): tlsCertFile and tlsPrivateKeyFile; with serverTLSBootstrap, the pair
in the certificate folder that was issued for a CertificateSigningRequest (handshakes fail until it is there); otherwise
kubelet.crt and kubelet.key in that folder, generated once.
"""

import contextlib
import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from activities.files.atomic_files import write_atomically
from worker.settings.cluster import SERVER_CERTIFICATE, ClusterSettings

SELF_SIGNED: Final = "kubelet.crt"
SELF_SIGNED_KEY: Final = "kubelet.key"
_LASTS: Final = timedelta(days=365)
_CLOCKS_DIFFER: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate chain and its key; both may be one file."""

    certificate: Path
    key: Path


def serving_pair(cluster: ClusterSettings, node_name: str) -> Pair:
    """Return the files to serve with, and generate a self-signed pair if needed. Blocks; raises OSError."""
    serving = cluster.serving
    if serving.certificate is not None and serving.key is not None:
        return Pair(serving.certificate, serving.key)
    if serving.bootstrap:
        requested = cluster.cert_dir / SERVER_CERTIFICATE
        return Pair(requested, requested)
    pair = Pair(cluster.cert_dir / SELF_SIGNED, cluster.cert_dir / SELF_SIGNED_KEY)
    now = datetime.now(UTC)
    if not pair.key.exists() or _expired(pair.certificate, now):
        make_self_signed(pair, node_name, now)
    return pair


def make_self_signed(pair: Pair, host: str, now: datetime) -> None:
    """Write a new key and a self-signed certificate for `host`, valid for a year; a crash leaves no mismatched pair."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host}@{int(now.timestamp())}"[:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LASTS)
        .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pair.certificate.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    pair.certificate.unlink(missing_ok=True)  # first: a certificate beside another key would be taken for a valid pair
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_atomically(pair.key, encoded)
    write_atomically(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _expired(certificate: Path, now: datetime) -> bool:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc <= now
    return True


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
