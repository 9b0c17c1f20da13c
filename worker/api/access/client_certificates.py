"""The user of a TLS client certificate.

OpenSSL has verified the certificate in the handshake against clientAuthentication's CA file (`tls`). A connection may outlive
its certificate, so expiry is checked for each request.
"""

import hashlib
from datetime import datetime
from typing import Any, Final

from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import NameOID

from worker.api.access.users import User

_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""The subject attribute that holds the user's UID (apimachinery pkg/apis/asn1)."""


class CertificateRefused(Exception):
    """A certificate that expired after the handshake, or names no user."""


def client_certificate(request: web.Request) -> bytes:
    """Return the client certificate (DER) of the request's connection, or b""."""
    transport = request.transport
    connection: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    return (connection.getpeercert(binary_form=True) if connection is not None else None) or b""


def user_of(certificate: bytes, now: datetime) -> User:
    """Return the user of a certificate: CN is the name, O are the groups (request/x509 CommonNameUserConversion).

    Raises CertificateRefused.
    """
    try:
        read = x509.load_der_x509_certificate(certificate)
        ends = read.not_valid_after_utc
        names, groups, uids = (
            [_text(one.value) for one in read.subject.get_attributes_for_oid(kind)]
            for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, _UID)
        )
    except ValueError as error:
        raise CertificateRefused(f"it can't be read: {error}") from error
    if now > ends:
        raise CertificateRefused(f"it has expired at {ends:%Y-%m-%dT%H:%M:%SZ}")
    if not names or not names[-1]:
        raise CertificateRefused("it has no common name")
    if len(uids) > 1 or "" in uids:
        raise CertificateRefused("its UID is empty, or there are several")
    extra = {_CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(certificate).hexdigest()}",)}
    return User(names[-1], "".join(uids), tuple(groups), extra)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
