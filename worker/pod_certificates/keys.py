"""Private keys of pods, and the proof that the node has them: a PKCS#10 request without content.

Key types and encoding are the kubelet's (pkg/kubelet/podcertificate generateKeyAndProof).
"""

from collections.abc import Callable, Mapping
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from proto.kubernetes.go_quote import go_quoted

_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
_Hash = hashes.SHA256 | hashes.SHA384 | hashes.SHA512
_EXPONENT: Final = 65537
_KEYS: Final[Mapping[str, tuple[Callable[[], _PrivateKey], _Hash | None]]] = {
    "RSA3072": (lambda: rsa.generate_private_key(_EXPONENT, 3072), hashes.SHA256()),
    "RSA4096": (lambda: rsa.generate_private_key(_EXPONENT, 4096), hashes.SHA256()),
    "ECDSAP256": (lambda: ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()),
    "ECDSAP384": (lambda: ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
    "ECDSAP521": (lambda: ec.generate_private_key(ec.SECP521R1()), hashes.SHA512()),
    "ED25519": (ed25519.Ed25519PrivateKey.generate, None),
}
"""By key type: what makes a key, and the hash that it signs."""


class KeyTypeUnknown(Exception):
    """A key of this type cannot be made; the message is the kubelet's."""


def key_and_proof(key_type: str) -> tuple[bytes, bytes]:
    """Make a key: PEM of PKCS#8, and the request that it has signed, as DER; raises KeyTypeUnknown. Takes seconds for RSA."""
    if key_type not in _KEYS:
        raise KeyTypeUnknown(f"while generating keypair: unknown key type {go_quoted(key_type)}")
    make, hashed = _KEYS[key_type]
    key = make()
    proof = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashed)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, proof.public_bytes(Encoding.DER)
