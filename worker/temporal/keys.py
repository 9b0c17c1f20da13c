"""The keys that encrypt payloads, and the token of the codec endpoint: two small files readable only by their owner.

Created at installation (`create_key_file`, `create_token_file`), read by every Temporal client. A key file has one key
a line, `<id> <base64 of 32 bytes>`, oldest first: the last one encrypts, all of them decrypt. Rotation (`add_key`) only
appends; a line may be removed once the retention of the last history written with it is over.
"""

import base64
import binascii
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

KEY_BYTES: Final = 32  # AES-256
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")
_LARGEST_FILE: Final = 64 * 1024  # some 900 keys; more is not a key file
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class KeyFileRefused(Exception):
    """A key or token file that must not be used; the message names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Key:
    """One AES-256 key and its id in payloads."""

    key_id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one file, oldest first."""

    keys: tuple[Key, ...]

    @property
    def newest(self) -> Key:
        """The key that encrypts."""
        return self.keys[-1]

    def find(self, key_id: str) -> Key | None:
        """Return the key of that id, or None."""
        return next((key for key in self.keys if key.key_id == key_id), None)


class KeyFile:
    """A key file that is read again when a payload has an unknown key id.

    So worker and poller can be restarted in any order after a rotation.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ring = read_key_file(path)
        self._read_at = _version(path)

    @property
    def newest(self) -> Key:
        """The key that encrypts, as of the last read."""
        return self._ring.newest

    def find(self, key_id: str) -> Key | None:
        """Return the key of that id; None if the file, read again if it has changed, does not have it."""
        key = self._ring.find(key_id)
        if key is None and (version := _version(self.path)) != self._read_at:
            self._ring, self._read_at = read_key_file(self.path), version
            key = self._ring.find(key_id)
        return key

    def known(self) -> tuple[str, ...]:
        """List the known key ids, for an error message."""
        return tuple(key.key_id for key in self._ring.keys)


def create_key_file(path: Path) -> KeyRing:
    """Create a key file (mode 0600) with one new key, or read the existing one.

    Atomic: of two concurrent calls one creates it and both read the same.
    """
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            _write_new(path, _line(_new_key()))
    return read_key_file(path)


def add_key(path: Path) -> KeyRing:
    """Append a new key, which encrypts after the next start of worker and poller; the old ones still decrypt."""
    with _folder_lock(path.parent):
        ring = KeyRing((*read_key_file(path).keys, _new_key()))
        _replace(path, "".join(_line(key) for key in ring.keys))
    return ring


def read_key_file(path: Path) -> KeyRing:
    """Read a key file; raises KeyFileRefused if others may read it, it is not ours or malformed."""
    keys: list[Key] = []
    for number, line in enumerate(_read_private(path).splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            key = _parse(path, number, line)
            if any(known.key_id == key.key_id for known in keys):
                raise KeyFileRefused(f"{path} line {number}: key id {key.key_id} is used twice; change one of them")
            keys.append(key)
    if not keys:
        raise KeyFileRefused(f"{path} has no key: put its backup back, or remove it to start with a new key")
    return KeyRing(tuple(keys))


def create_token_file(path: Path) -> str:
    """Create a token file (mode 0600), or read the existing one; returns the token."""
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            _write_new(path, secrets.token_urlsafe(24) + "\n")
    return read_token_file(path)


def read_token_file(path: Path) -> str:
    """Read a token; raises KeyFileRefused if others may read the file, or the token does not fit into a URL."""
    token = _read_private(path).strip()
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):
        raise KeyFileRefused(
            f"{path} holds no token (16 or more of A-Z a-z 0-9 _ -): remove it: the next start creates a new one"
        )
    return token


def _new_key() -> Key:
    secret = secrets.token_bytes(KEY_BYTES)
    return Key(hashlib.sha256(secret).hexdigest()[:8], secret)


def _line(key: Key) -> str:
    return f"{key.key_id} {base64.b64encode(key.secret).decode()}\n"


def _parse(path: Path, number: int, line: str) -> Key:
    key_id, _, encoded = line.strip().partition(" ")
    try:
        secret = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not _KEY_ID.fullmatch(key_id) or len(secret) != KEY_BYTES:
        raise KeyFileRefused(f"{path} line {number}: expected `<id> <base64 of {KEY_BYTES} bytes>`")
    return Key(key_id, secret)


def _read_private(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise KeyFileRefused(
            f"{path} does not exist: `tempolet up` creates it; or copy it from where it was created"
        ) from None
    except OSError as error:
        raise KeyFileRefused(f"{path} cannot be opened: {error.strerror} (a symbolic link is refused)") from error
    try:
        _check_private(path, os.fstat(fd))
        data = os.read(fd, _LARGEST_FILE + 1)
    finally:
        os.close(fd)
    if len(data) > _LARGEST_FILE:
        raise KeyFileRefused(f"{path} is over {_LARGEST_FILE} bytes: not a key or token file")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise KeyFileRefused(f"{path} is not text: not a key or token file") from None


def _check_private(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise KeyFileRefused(f"{path} is not a regular file")
    if facts.st_uid not in {os.geteuid(), 0}:
        raise KeyFileRefused(f"{path} belongs to uid {facts.st_uid}: chown it to uid {os.geteuid()}")
    if facts.st_mode & _OTHERS:
        raise KeyFileRefused(
            f"{path} has mode {stat.S_IMODE(facts.st_mode):04o}, others may read it: chmod 0600 {path}"
        )


def _write_new(path: Path, text: str) -> None:
    """Write the file atomically; raises FileExistsError if it exists."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = _write_aside(path, text)
    try:
        os.link(aside, path)  # unlike rename, never replaces
    finally:
        aside.unlink()
    _sync_folder(path.parent)


def _replace(path: Path, text: str) -> None:
    aside = _write_aside(path, text)
    owner = path.stat()
    os.chown(aside, owner.st_uid, owner.st_gid)
    aside.replace(path)
    _sync_folder(path.parent)


def _write_aside(path: Path, text: str) -> Path:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
    return aside


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[int]:
    """Lock the folder: the file is replaced, so a lock on it would be a lock on the old one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _version(path: Path) -> tuple[int, int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0, 0)
    return (facts.st_ino, facts.st_mtime_ns, facts.st_size)
