"""Explains why a connection to the API server failed, naming the part of the kubeconfig that needs fixing.

Used by `api_server` when a connection fails or authentication is refused. Without it the operator would see the text
of an HTTP library, or just: Unauthorized.
"""

import ssl
from datetime import UTC, datetime
from typing import Final

import aiohttp

from activities.clients.api_server.kubeconfig import Kubeconfig, KubeconfigRefused, Material

_DATES: Final = (9, 10)
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED (openssl/x509_vfy.h)."""


def not_connected(error: BaseException, kubeconfig: Kubeconfig) -> str:
    """Explain why a connection failed."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            if dates := wrong_dates(error.certificate_error):
                return f"the certificate of {kubeconfig.server} is not trusted: {dates}"
            why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return (
                f"the certificate of {kubeconfig.server} is not trusted: {why}; "
                f"certificate-authority of the kubeconfig ({_place(kubeconfig.authority, 'the system')}) must have signed it, for this address"
            )
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port}: {error.strerror or error.os_error}"
        case _:
            return str(error) or type(error).__name__


def wrong_dates(error: Exception) -> str:
    """Explain that a certificate is not valid now; empty if its dates are not what is wrong."""
    if not isinstance(error, ssl.SSLCertVerificationError) or error.verify_code not in _DATES:
        return ""
    return (
        f"{error.verify_message}, by this machine's clock, which shows {datetime.now(UTC):%Y-%m-%d %H:%M} UTC: set the "
        "clock (`timedatectl set-ntp true`), or renew the certificate"
    )


def authentication_error(kubeconfig: Kubeconfig) -> str:
    """Explain a 401: which credential was refused, and what is wrong with it as far as it shows from here."""
    if kubeconfig.program:
        return f"the API server does not accept the credential from {kubeconfig.program.command} of the kubeconfig"
    if kubeconfig.token:
        return (
            f"the token of the kubeconfig ({_place(kubeconfig.token, '')}) is unknown or has expired: ask for a new one"
        )
    material = kubeconfig.pair[0]
    if not material:
        return "the kubeconfig has neither a client certificate nor a token"
    return _why_no_certificate(material)


def _why_no_certificate(material: Material) -> str:
    from cryptography import x509  # noqa: PLC0415 - only who is not let in needs it

    place = _place(material, "")
    try:
        leaf = x509.load_pem_x509_certificates(material.read())[0]
    except (KubeconfigRefused, ValueError) as error:
        return f"the client certificate ({place}) cannot be read: {error}"
    subject, until = leaf.subject.rfc4514_string(), f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if datetime.now(UTC) > leaf.not_valid_after_utc:
        return (
            f"the client certificate of {subject} ({place}) has expired at {until}: "
            "put a new one there, or give --bootstrap-kubeconfig to get one"
        )
    return f"the client certificate of {subject} ({place}) is good until {until}, but the API server's --client-ca-file has not signed it"


def _place(material: Material, none: str) -> str:
    return str(material.path) if material.path else "in the kubeconfig itself" if material else none
