"""Keys of a TLS server of a test."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

_INTEGER, _SEQUENCE = 2, 0x30
_MODULUS: Final = 2**9999 + 2**1064 + 12345678901
"""Odd and of 10,000 bits, the most that OpenSSL takes; that it is no prime nobody checks."""


def key_pair(folder: Path) -> Path:
    """Write both into one file: for another name, long expired."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "other.example")])
    before, after = datetime(2001, 1, 1, tzinfo=UTC), datetime(2002, 1, 1, tzinfo=UTC)
    certificate = x509.CertificateBuilder(name, name, key.public_key(), 1, before, after).sign(key, hashes.SHA256())
    written = folder / "server.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    written.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    return written


def large_group(folder: Path) -> Path:
    """Write the parameters of a Diffie-Hellman group that takes seconds to compute with."""
    written = folder / "group.pem"
    encoded = base64.encodebytes(_der(_SEQUENCE, _integer(_MODULUS) + _integer(3))).decode()
    written.write_text(f"-----BEGIN DH PARAMETERS-----\n{encoded}-----END DH PARAMETERS-----\n")
    return written


def _integer(number: int) -> bytes:
    return _der(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


def _der(tag: int, body: bytes) -> bytes:
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8)
    return bytes((tag, *([len(body)] if len(body) < 0x80 else [0x80 + len(length), *length]))) + body
