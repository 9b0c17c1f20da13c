"""The certificate authority of a control plane, and the certificates of servers and clients that it signs.

Used by `control_plane`; tests also sign certificates that a cluster must refuse (expired, of another authority, of other
organizations).
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """One authority; its certificate is `<folder>/ca.crt`, its key `<folder>/ca.key`."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, folder: Path, name: str = "tempolet-test-ca") -> Self:
        """Create an authority in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name, ())
        certificate = (
            _builder(subject, subject, key, timedelta(days=10))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(Signed(folder / "ca.crt", folder / "ca.key"), certificate, key)
        return cls(folder, certificate, key)

    def sign(
        self,
        file: str,
        name: str,
        organizations: Sequence[str] = (),
        *,
        hosts: Sequence[str] = (),
        lifetime: timedelta = DAY,
    ) -> Signed:
        """Sign a certificate for server and client use into `<folder>/<file>.crt`; with a negative lifetime it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = _builder(_name(name, organizations), self.certificate.subject, key, lifetime)
        builder = builder.add_extension(usages, critical=False)
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issued_by, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(one) for one in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = Signed(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        _write(signed, builder.sign(self.key, hashes.SHA256()), key)
        return signed


def make_key_pair(private: Path, public: Path) -> None:
    """Write a key that signs service account tokens, and the public key that verifies them."""
    key = ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(_private_bytes(key))
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, spki))


def _name(common: str, organizations: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lifetime) - timedelta(hours=1))
        .not_valid_after(now + lifetime)
    )


def _write(signed: Signed, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    signed.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    signed.key.write_bytes(_private_bytes(key))
    signed.key.chmod(0o600)


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    # the API server reads a service account key only as SEC 1 or PKCS 8
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
