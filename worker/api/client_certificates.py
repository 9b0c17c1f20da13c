"""Client certificates: held against clientAuthentication's CA file at each request, by its newest content.

The handshake takes any certificate, as the kubelet's does (RequestClientCert; `tls` says how), so nothing but this file makes
a certificate count. Verified by cryptography's path validation; unlike Go's it also refuses certificates of X.509 version 1.
"""

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from worker.api.users import User

LARGEST_CHAIN: Final = 10
"""Certificates that a client may send."""
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""Of a subject: the user's UID (apimachinery pkg/apis/asn1)."""
_LONGEST_REASON: Final = 300
"""Characters: names of a certificate stand in it, and a stranger may send 100 KB of them, for our log."""

log = structlog.get_logger(__name__)


class CertificateUnverified(Exception):
    """A certificate that none of the client CAs stands for, or not now, or not for a client."""


def presented(request: web.Request) -> Sequence[bytes]:
    """Give what the client proved to have the key of (DER), and what it sent along; empty without a certificate."""
    transport = request.transport
    ssl_object: Any = transport.get_extra_info("ssl_object") if transport is not None else None
    leaf: bytes | None = ssl_object.getpeercert(binary_form=True) if ssl_object is not None else None
    if not leaf:
        return ()
    return leaf, *_sent_along(ssl_object)


def _sent_along(ssl_object: Any) -> Sequence[bytes]:
    """Give the intermediates; SSLObject has a method for them since Python 3.13, the object beneath it since 3.10."""
    with contextlib.suppress(AttributeError, ValueError):
        if hasattr(ssl_object, "get_unverified_chain"):
            return tuple(ssl_object.get_unverified_chain()[1:])
        chain = ssl_object._sslobj.get_unverified_chain()  # noqa: SLF001 - see above
        return tuple(one.public_bytes(2) for one in chain[1:])  # 2: DER
    return ()


class ClientCertificates:
    """The bundle of CAs that stand for clients."""

    def __init__(self, bundle: Path | None) -> None:
        self._bundle = bundle
        self._content = b""
        self._store: Store | None = None
        self._told = ""
        """What was wrong with the bundle when it was last read: said once."""
        self._lock = threading.Lock()

    @property
    def asked_for(self) -> bool:
        """Say whether clients may come with certificates at all."""
        return self._bundle is not None

    def refresh(self) -> None:
        """Read the bundle again where it has changed; one that can't be read leaves the last good one. Blocks."""
        if self._bundle is None:
            return
        with self._lock:
            try:
                content = self._bundle.read_bytes()
                if content != self._content:
                    self._store = _store(content)
                    self._content = content
                self._told = ""
            except (OSError, ValueError) as error:
                if str(error) != self._told:
                    log.error("The client CA file can't be used", file=str(self._bundle), error=str(error))  # noqa: TRY400
                self._told = str(error)

    def user(self, chain: Sequence[bytes], now: datetime | None = None) -> User:
        """Give the user of a certificate: CN its name, O its groups, and which certificate it was (request/x509 CommonNameUserConversion).

        Raises CertificateUnverified.
        """
        if self._store is None or len(chain) > LARGEST_CHAIN:
            raise CertificateUnverified("no client CA is known" if self._store is None else "the chain is too long")
        try:
            leaf, *between = (x509.load_der_x509_certificate(one) for one in chain)
            ca, client = _policies()
            builder = PolicyBuilder().store(self._store).time(now or datetime.now(UTC))
            builder = builder.extension_policies(ca_policy=ca, ee_policy=client)
            builder.build_client_verifier().verify(leaf, between)
            names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            groups = leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            uids = [_text(one.value) for one in leaf.subject.get_attributes_for_oid(_UID)]
        except (VerificationError, ValueError) as error:
            raise CertificateUnverified(str(error)[:_LONGEST_REASON]) from error
        if not names or not names[-1].value:
            raise CertificateUnverified("it has no common name")
        if len(uids) > 1 or "" in uids:
            raise CertificateUnverified("its UID is empty, or there are several")
        said = {_CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(chain[0]).hexdigest()}",)}
        return User(_text(names[-1].value), "".join(uids), tuple(_text(one.value) for one in groups), said)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _store(content: bytes) -> Store:
    return Store(x509.load_pem_x509_certificates(content))


def _policies() -> tuple[ExtensionPolicy, ExtensionPolicy]:
    """Ask of a CA and of a client what Go asks: no names of servers, and the key usages only where they are said.

    A CA that is for something else than clients stands for none of them (crypto/x509 checkChainForKeyUsage).
    """

    def signs(_policy: object, _certificate: x509.Certificate, usage: x509.KeyUsage | None) -> None:
        if usage is not None and not usage.key_cert_sign:
            raise ValueError("a CA whose key may not sign certificates")

    def is_ca(_policy: object, _certificate: x509.Certificate, basic: x509.BasicConstraints) -> None:
        if not basic.ca:
            raise ValueError("it was issued by a certificate that is no CA")

    def for_clients(_policy: object, _certificate: x509.Certificate, usages: x509.ExtendedKeyUsage | None) -> None:
        known = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
        if usages is not None and not known & set(usages):
            raise ValueError("it is not for clients")

    ca = (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, is_ca)
        .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, signs)
        .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, for_clients)
    )
    return ca, ExtensionPolicy.permit_all().may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, for_clients)
