"""What keeps a client from connecting to Temporal: settings that no server could answer, a refusal, or a server that is away.

The first end a start: only who wrote them can help. The others are waited for, because a node goes on without Temporal, and its
side may be repaired without this one.
"""

import os
import re
from typing import Any, Final

from temporalio.service import RPCStatusCode, TLSConfig

UNIX: Final = "unix:"
LONGEST_SOCKET: Final = 107
"""Bytes of a socket's path (unix(7))."""
PASSING: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.UNKNOWN,
    }
)
"""Status codes of a server that is starting; with any other, somebody has to change something."""
_ADDRESS: Final = re.compile(r"(?:https?://)?(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]]+)(?::(?P<port>[0-9]{1,5}))?/?")
_HIGHEST_PORT: Final = 65535
_STATUS: Final = re.compile(r'Status { code: (?P<code>\w+), message: "(?P<message>[^"]*)"')
_TLS: Final = re.compile(
    r"kind: InvalidData, error: (?P<error>.{1,200}) }|\(Transport, (?P<setting>(?:\w*ParseError|InconsistentKeys)\b[^)]{0,200})"
)
"""In the words of the SDK's core: one of both sides refused the other, or TLS could not be set up."""


class TemporalMisconfigured(Exception):
    """Address or TLS material with which no server can be reached; the message says which and why."""


class TemporalRefuses(Exception):
    """Temporal answers, and refuses our credentials, or TLS does; the message says which Temporal and why."""


def refuse_unusable(options: dict[str, Any]) -> None:
    """Check the options of `Client.connect` without a network; raises TemporalMisconfigured."""
    address = options["target_host"]
    if why := _wrong_address(address, tls=bool(options.get("tls") or options.get("api_key"))):
        raise TemporalMisconfigured(f"Temporal's address {address!r} {why}: it is host:port, or unix:///path")
    if isinstance(tls := options.get("tls"), TLSConfig) and not address.startswith(UNIX):
        _refuse_unusable_tls(tls)


def refusal(error: RuntimeError) -> str:
    """Return why Temporal, or TLS, refuses us; empty if Temporal is only away. Takes what `Client.connect` raises."""
    text = str(error)
    if found := _STATUS.search(text):
        status = RPCStatusCode[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found["code"]).upper()]
        return "" if status in PASSING else f"{status.name} {found['message']}"
    found = _TLS.search(text)
    return f"TLS: {found['error'] or found['setting']}" if found else ""


def reason(error: RuntimeError) -> str:
    """Return the operating system's error from the core's nested message, or its first line."""
    text = str(error)
    if "kind: TimedOut" in text:
        return "timed out"
    cause = r"Caused by:\s+(?:0: )?(\S.*?(?:\(os error \d+\))?)\)*$"  # without the brackets around the whole
    found = re.search(rf'message: "([^"]+)"|{cause}', text, re.MULTILINE)
    return (found[1] or found[2]) if found else text.partition("\n")[0][:300]


def _wrong_address(address: str, *, tls: bool) -> str:
    if address.startswith(UNIX):
        path = "/" + address.removeprefix(UNIX).lstrip("/")
        return "is too long for a socket's path" if len(os.fsencode(path)) > LONGEST_SOCKET else ""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return "is no address"
    if found["port"] is None:
        return "" if tls else "has no port"
    return "" if 0 < int(found["port"]) <= _HIGHEST_PORT else "has no such port"


def _refuse_unusable_tls(tls: TLSConfig) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - only with TLS
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    doing = "the server's CA certificate"
    try:
        if tls.server_root_ca_cert is not None:
            load_pem_x509_certificates(tls.server_root_ca_cert)
        doing = "the client's certificate"
        chain = load_pem_x509_certificates(tls.client_cert) if tls.client_cert is not None else None
        doing = "the client's key"
        key = load_pem_private_key(tls.client_private_key, None) if tls.client_private_key is not None else None
    except (ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise TemporalMisconfigured(f"Temporal's TLS settings: {doing} cannot be read: {error}") from error
    if (chain is None) is not (key is None):
        raise TemporalMisconfigured("Temporal's TLS settings: a client has both a certificate and a key, or neither")
    if chain and key and chain[0].public_key() != key.public_key():
        raise TemporalMisconfigured("Temporal's TLS settings: the client's key is not that of its certificate")
