"""The files of a certificate and its key: `<prefix>-<time>.pem`, and `<prefix>-current.pem`, a link to the newest.

This is the kubelet's layout (client-go util/certificate/certificate_store.go), so a node can switch between the two and keep
its certificates. The link is replaced by one rename, so a reader sees either the old pair or the new one.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from activities.files.atomic_files import write_atomically

CLIENT: Final = "kubelet-client"
SERVER: Final = "kubelet-server"


class StoreRefused(Exception):
    """The certificate folder is in an unusable state; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate, and its key as PEM."""

    leaf: x509.Certificate
    key: bytes

    @property
    def not_before(self) -> datetime:
        """Start of the validity period."""
        return self.leaf.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """End of the validity period."""
        return self.leaf.not_valid_after_utc


@dataclass(frozen=True, slots=True)
class CertificateStore:
    """The certificates of one purpose."""

    folder: Path
    prefix: str

    @property
    def current_path(self) -> Path:
        """The link to the newest pair."""
        return self.folder / f"{self.prefix}-current.pem"

    def current(self) -> Pair | None:
        """Read the newest pair; None without one. Raises StoreRefused if it is unusable."""
        self._finish_switch()
        try:
            data = self.current_path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreRefused(f"{self.current_path}: cannot be read: {error.strerror}") from error
        try:
            return read_pair(data)
        except ValueError as error:
            raise StoreRefused(f"{self.current_path}: no certificate with its key: {error}; remove it") from error

    def update(self, certificate: bytes, key: bytes, now: datetime) -> Pair:
        """Save a new pair (PEM) and make it current; raises ValueError if it is invalid, OSError, StoreRefused."""
        text = certificate.strip() + b"\n" + key.strip() + b"\n"
        pair = read_pair(text)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        path = self.folder / f"{self.prefix}-{now:%Y-%m-%d-%H-%M-%S}.pem"
        write_atomically(path, text)
        self._switch_to(path)
        return pair

    def _switch_to(self, path: Path) -> None:
        if self.current_path.exists() and not self.current_path.is_symlink():
            raise StoreRefused(f"{self.current_path}: a file, where a link belongs; remove it")
        self._next_path.unlink(missing_ok=True)
        self._next_path.symlink_to(path.absolute())
        self._next_path.replace(self.current_path)

    def _finish_switch(self) -> None:
        """Complete a switch that a kubelet was interrupted in, between its two steps."""
        if self._next_path.is_symlink() and not self.current_path.is_symlink():
            with contextlib.suppress(OSError):
                self._next_path.replace(self.current_path)

    @property
    def _next_path(self) -> Path:
        return self.folder / f"{self.prefix}-updated.pem"


def read_pair(data: bytes) -> Pair:
    """Parse PEM with a certificate (first) and its key; raises ValueError if they do not match."""
    leaf = x509.load_pem_x509_certificates(data)[0]
    start = data.find(b"-----BEGIN", _end_of_certificates(data))
    key = load_pem_private_key(data[start:], None) if start >= 0 else None
    if key is None or key.public_key() != leaf.public_key():
        raise ValueError("the key is not the certificate's")
    return Pair(leaf, data[start:])


def _end_of_certificates(data: bytes) -> int:
    end = b"-----END CERTIFICATE-----"
    return data.rfind(end) + len(end)
