"""The TLS of the node's API: at least 1.2, the operator's versions and ciphers, certificates that change while it runs.

A client's certificate is asked for and not judged during the handshake (Go's RequestClientCert): who comes with a wrong one
gets 401 in words, and may still come with a token. Python's ssl knows only "none" and "verified by OpenSSL", so the
check is switched off beneath it by one call of OpenSSL; `client_certificates` judges each request, in any case. Where that
call isn't to be had (another version of Python, OpenSSL built in), OpenSSL judges first, and a wrong certificate ends in the handshake:
stricter, never laxer. Nor are sessions kept: OpenSSL would hold 20480 of TLS 1.2 with all that each client has sent as its chain,
before anybody knows who it is.
"""

import _ssl
import ctypes
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from worker.api.serving_certificate import Pair
from worker.settings.cluster import Serving
from worker.settings.kubelet_configuration import ConfigurationRefused

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # older than 1.2 is nothing that OpenSSL 3 speaks
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
CIPHERS: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}
"""Go's names of cipher suites, and OpenSSL's; those of TLS 1.3 can't be chosen, in Go neither."""
_TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_KNOWN_LAYOUTS: Final = ((3, 11), (3, 12), (3, 13))
"""CPython versions with which this was tried: their SSLContext begins with OpenSSL's pointer (Modules/_ssl.c PySSLContext)."""
_SET_SESSION_CACHE_MODE: Final = 44
_SESSION_CACHE_OFF: Final = 0
_VERIFY_PEER: Final = 1
"""SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF and SSL_VERIFY_PEER, which CERT_OPTIONAL sets (openssl/ssl.h)."""
_Verify: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_take_any: Final = _Verify(lambda _store, _argument: 1)  # kept for the life of the process: OpenSSL holds its address

log = structlog.get_logger(__name__)


def check_tls(serving: Serving) -> None:
    """Refuse what can't be served; raises ConfigurationRefused naming the key."""
    if serving.min_version not in _VERSIONS:
        raise ConfigurationRefused(
            f"tlsMinVersion {serving.min_version!r}: known are {', '.join(filter(None, _VERSIONS))}"
        )
    for name in serving.cipher_suites:
        if name not in CIPHERS and name not in _TLS13:
            raise ConfigurationRefused(f"tlsCipherSuites {name!r}: no cipher suite of this name can be served")


def bare_context(serving: Serving, client_ca: Path | None) -> ssl.SSLContext:
    """Make a context that has everything but a certificate. Raises OSError for a CA file that can't be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[serving.min_version]
    if older := [CIPHERS[name] for name in serving.cipher_suites if name in CIPHERS]:
        context.set_ciphers(":".join(dict.fromkeys(older)))
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # no client of a node comes back often enough, and each would cost memory
    _without_sessions(context)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        if not _without_judgement(context):
            context.load_verify_locations(client_ca)
    return context


def serving_context(serving: Serving, pair: Pair, client_ca: Path | None) -> ssl.SSLContext:
    """Make what new connections are served with; raises OSError (ssl.SSLError too) for a pair that does not fit."""
    context = bare_context(serving, client_ca)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def _without_judgement(context: ssl.SSLContext) -> bool:
    """Let the handshake take any certificate of a client; False where OpenSSL's own check stays."""
    try:
        install = _openssl().SSL_CTX_set_cert_verify_callback
        install.argtypes, install.restype = [ctypes.c_void_p, _Verify, ctypes.c_void_p], None
        install(_beneath(context), _take_any, None)
    except (AttributeError, OSError, _Unknown):
        return False
    return True


def _without_sessions(context: ssl.SSLContext) -> bool:
    """Let nothing be kept of connections that are over; False where OpenSSL goes on keeping sessions of TLS 1.2."""
    asked, context.verify_mode = context.verify_mode, ssl.CERT_OPTIONAL  # what `_beneath` knows a context by
    try:
        control = _openssl().SSL_CTX_ctrl
        control.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
        control.restype = ctypes.c_long
        control(_beneath(context), _SET_SESSION_CACHE_MODE, _SESSION_CACHE_OFF, None)
    except (AttributeError, OSError, _Unknown):
        return False
    finally:
        context.verify_mode = asked
    return True


class _Unknown(Exception):
    """An interpreter whose contexts we have not looked into."""


def _openssl() -> ctypes.CDLL:
    """Give the very OpenSSL that Python's module is linked to; raises AttributeError and OSError where it is no library."""
    return ctypes.CDLL(_ssl.__file__)


def _beneath(context: ssl.SSLContext) -> ctypes.c_void_p:
    """Give OpenSSL's own context of one that asks for certificates (CERT_OPTIONAL); raises _Unknown, AttributeError, OSError."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in _KNOWN_LAYOUTS:
        raise _Unknown
    mode = _openssl().SSL_CTX_get_verify_mode
    mode.argtypes, mode.restype = [ctypes.c_void_p], ctypes.c_int
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    if mode(pointer) != _VERIFY_PEER:
        raise _Unknown
    return pointer


class Renewed:
    """The context of new connections, exchanged when the files change; connections that are open keep theirs."""

    def __init__(
        self, make: Callable[[], ssl.SSLContext], files: Callable[[], Sequence[Path]], bare: ssl.SSLContext
    ) -> None:
        """Take what reads the files and makes a context, which files these are, and a context without a certificate."""
        self._make = make
        self._files = files
        self._tried: object = None
        self._current: ssl.SSLContext | None = None
        self.listening = bare
        """What a socket listens with: its settings are a connection's, and it hands each on to the newest certificate."""
        self.listening.sni_callback = self._hand_on

    def refresh(self) -> None:
        """Take changed files; those that can't be used leave the last good ones in use, and are told once. Blocks."""
        try:
            stamp = tuple((file, *_stamp(file)) for file in self._files())
            if stamp == self._tried:
                return
            self._tried = stamp
            self._current = self._make()
        except (OSError, ValueError) as error:
            before = "the one before" if self._current is not None else "none: handshakes fail"
            log.error("The serving certificate can't be used", error=str(error), inUse=before)  # noqa: TRY400

    def _hand_on(self, connection: Any, _name: str | None, _listening: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR  # as a kubelet that waits for its certificate
        connection.context = self._current
        return None


def _stamp(file: Path) -> tuple[int, ...]:
    """Give what changes with a file; of one that is not there, nothing."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino
