"""TLS of the node's API: version 1.2 or later, configurable versions and ciphers, certificates reloaded while running.

A client certificate is optional. OpenSSL verifies it in the handshake and ends an untrusted one with an alert; the kubelet
accepts the connection and answers 401. TLS 1.3 connections cannot be resumed. A TLS 1.2 session contains the verified client
certificate and is dropped together with the context that verified it.
"""

import contextlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import structlog

from worker.api.access.serving_certificate import Pair
from worker.settings.cluster import Serving
from worker.settings.kubelet.configuration import ConfigurationRefused

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # OpenSSL 3 speaks nothing older than 1.2
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
"""Go's names of cipher suites and OpenSSL's; those of TLS 1.3 are not configurable, as in Go."""
_TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
MOST_SESSIONS: Final = 1000
"""TLS 1.2 sessions that OpenSSL caches for resumption. Its default is 20480 (22 MB), and Python's ssl cannot disable the cache."""
Stamp = tuple[int, ...]

log = structlog.get_logger(__name__)


def check_tls(serving: Serving) -> None:
    """Reject settings that cannot be served; raises ConfigurationRefused naming the key."""
    if serving.min_version not in _VERSIONS:
        raise ConfigurationRefused(
            f"tlsMinVersion {serving.min_version!r}: known are {', '.join(filter(None, _VERSIONS))}"
        )
    for name in serving.cipher_suites:
        if name not in CIPHERS and name not in _TLS13:
            raise ConfigurationRefused(f"tlsCipherSuites {name!r}: no cipher suite of this name can be served")


def context_without_certificate(serving: Serving) -> ssl.SSLContext:
    """Return a context with all settings but no certificate, so every handshake with it fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[serving.min_version]
    if older := [CIPHERS[name] for name in serving.cipher_suites if name in CIPHERS]:
        context.set_ciphers(":".join(dict.fromkeys(older)))
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # clients of a node rarely reconnect, and each ticket would cost memory
    context.set_alpn_protocols(["http/1.1"])
    return context


def serving_context(serving: Serving, pair: Pair) -> ssl.SSLContext:
    """Return the context for new connections; raises OSError naming the file that cannot be read or does not match."""
    context = context_without_certificate(serving)
    if serving.bootstrap and serving.certificate is None and not pair.certificate.exists():
        raise OSError(
            f"{pair.certificate} is issued when this node's CertificateSigningRequest is approved: `kubectl get csr`"
        )
    with _named(pair.certificate):
        context.load_cert_chain(pair.certificate, pair.key)
    if (client_ca := serving.authentication.client_ca_file) is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= (
            ssl.VERIFY_X509_PARTIAL_CHAIN
        )  # as in Go, an intermediate CA may be the only trust anchor
        with _named(client_ca):
            context.load_verify_locations(client_ca)
    return context


@contextlib.contextmanager
def _named(file: Path) -> Iterator[None]:
    """Add the file's name to errors of OpenSSL."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{file}: {error}") from error


class ReloadingContext:
    """The TLS context of new connections, replaced when its files change; open connections keep theirs."""

    def __init__(self, serving: Serving, pair: Callable[[], Pair]) -> None:
        """Take the settings and a function that returns the current certificate pair."""
        self._serving = serving
        self._pair = pair
        self._tried: tuple[Stamp, ...] = ()
        self._trusted: Stamp | None = None
        """Stamp of the client CA file in use; None before the first context."""
        self.context = context_without_certificate(serving)
        """The context for new connections; before there is a certificate, handshakes fail, as with the kubelet."""

    def refresh(self) -> bool:
        """Reload changed files; report whether the client CA changed. Blocks.

        If the new files are unusable, the previous ones stay in use and the error is logged once.
        """
        client_ca = self._serving.authentication.client_ca_file
        try:
            pair = self._pair()
            stamps = tuple(_stamp(file) for file in (pair.certificate, pair.key, client_ca))
            if stamps == self._tried and self.context.session_stats()["number"] <= MOST_SESSIONS:
                return False
            self._tried = stamps
            self.context = serving_context(self._serving, pair)
        except (OSError, ValueError) as error:
            in_use = "the ones before" if self._trusted is not None else "none: handshakes fail"
            log.error("The node's API can't use its certificates", error=str(error), inUse=in_use)  # noqa: TRY400 - for an unusable file a stack trace adds nothing
            return False
        before, self._trusted = self._trusted, stamps[-1]
        return before is not None and before != self._trusted


def _stamp(file: Path | None) -> Stamp:
    """Return a value that changes with the file; () if it does not exist."""
    try:
        status = file.stat() if file is not None else None
    except FileNotFoundError:
        return ()
    return (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else ()
