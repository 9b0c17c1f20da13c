"""The keys that encrypt payloads, and the token of the codec endpoint: two small files readable only by their owner.

Created at installation (`create_key_file`, `create_token_file`), read by every Temporal client. A key file has one key
a line, `<id> <base64 of 32 bytes>`, oldest first: the last one encrypts, all of them decrypt. Rotation (`add_key`) only
appends.

Each key id is active or retired, and a replay must find the same as the run did. So an id stays in the file for ever:
`<id> retired` in place of the secret refuses what the key encrypted. A line with the id alone, and an id that was in the
file before (`<file>.ids` keeps them), is an active key whose secret is missing: nothing can be judged until it is back
(KeyMissing). Any other id is a stranger's, and what names it is refused.
"""

import base64
import binascii
import contextlib
import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn

from worker.temporal.private_files import (
    KeyFileRefused,
    folder_lock,
    read_private,
    replace_private,
    version,
    write_aside,
    write_new,
)

KEY_BYTES: Final = 32  # AES-256
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,32}")
_RETIRED: Final = "retired"


class KeyMissing(Exception):
    """The secret of an active key is missing: whether a payload of that key is ours cannot be said."""


@dataclass(frozen=True, slots=True)
class Key:
    """One AES-256 key and its id in payloads."""

    key_id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of one file, oldest first."""

    keys: tuple[Key, ...]
    retired: tuple[str, ...] = ()
    """The ids of retired keys."""
    lacking: tuple[str, ...] = ()
    """The ids of active keys whose secret is not in the file."""

    @property
    def ids(self) -> frozenset[str]:
        """Every id in the file."""
        return frozenset({*(key.key_id for key in self.keys), *self.retired, *self.lacking})

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

    def __init__(self, path: Path, *, missing: Callable[[str], None] | None = None) -> None:
        """Take the file; `missing` is called with a sentence each time that a secret is missing, before KeyMissing is raised."""
        self.path = path
        self._tell_missing = missing
        self._load()

    def _load(self) -> None:
        at = version(self.path)
        self._ring, self._read_at = read_key_file(self.path), at
        known = _known_ids(self.path) | self._ring.ids
        self._missing = known - self._ring.ids | frozenset(self._ring.lacking)
        _remember_ids(self.path, known)

    @property
    def newest(self) -> Key:
        """The key that encrypts, as of the last read."""
        return self._ring.newest

    def find(self, key_id: str) -> Key | None:
        """Return the key of that id, None for a retired or unknown one; the file is read again if it has changed.

        Raises KeyMissing for an active key without its secret, and if the changed file cannot be read.
        """
        key = self._ring.find(key_id)
        if key is None and version(self.path) != self._read_at:
            try:
                self._load()
            except KeyFileRefused as error:
                self._raise_missing(str(error))
            key = self._ring.find(key_id)
        if key is None and key_id in self._missing:
            self._raise_missing(self.lack)
        return key

    @property
    def lack(self) -> str:
        """What is missing and what to do; empty if every active key has its secret."""
        if not self._missing:
            return ""
        ids = ", ".join(sorted(self._missing))
        return (
            f"{self.path} lacks the secret of key {ids}: put the line back from the file's copy; if no open pod and no "
            f"history needs the key any more, write `<id> {_RETIRED}` in its place"
        )

    def _raise_missing(self, why: str) -> NoReturn:
        if self._tell_missing is not None:
            self._tell_missing(why)
        raise KeyMissing(why)


def create_key_file(path: Path) -> KeyRing:
    """Create a key file (mode 0600) with one new key, or read the existing one.

    Atomic: of two concurrent calls one creates it and both read the same.
    """
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            write_new(path, _line(_new_key()))
    return read_key_file(path)


def add_key(path: Path) -> KeyRing:
    """Append a new key, which encrypts after the next start of worker and poller; the old ones still decrypt."""
    with folder_lock(path.parent):
        before = read_key_file(path)
        key = _new_key()
        kept = "".join(f"{line}\n" for line in read_private(path).splitlines())
        replace_private(path, kept + _line(key))
    return replace(before, keys=(*before.keys, key))


def read_key_file(path: Path) -> KeyRing:
    """Read a key file; raises KeyFileRefused if others may read it, it is not ours or malformed."""
    keys: list[Key] = []
    retired: list[str] = []
    lacking: list[str] = []
    known: set[str] = set()
    for number, line in enumerate(read_private(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        key_id, _, rest = line.strip().partition(" ")
        if not _KEY_ID.fullmatch(key_id):
            raise KeyFileRefused(f"{path} line {number}: expected `<id> <base64 of {KEY_BYTES} bytes>`")
        if key_id in known:
            raise KeyFileRefused(f"{path} line {number}: key id {key_id} is used twice; change one of them")
        known.add(key_id)
        match rest.strip():
            case "":
                lacking.append(key_id)
            case _ if rest.strip() == _RETIRED:
                retired.append(key_id)
            case encoded:
                keys.append(_parse(path, number, key_id, encoded))
    if not keys:
        raise KeyFileRefused(
            f"{path} has no key: put its backup back, or remove it and {path.name}.ids to start with a new key"
        )
    return KeyRing(tuple(keys), tuple(retired), tuple(lacking))


def create_token_file(path: Path) -> str:
    """Create a token file (mode 0600), or read the existing one; returns the token."""
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            write_new(path, secrets.token_urlsafe(24) + "\n")
    return read_token_file(path)


def read_token_file(path: Path) -> str:
    """Read a token; raises KeyFileRefused if others may read the file, or the token does not fit into a URL."""
    token = read_private(path).strip()
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


def _parse(path: Path, number: int, key_id: str, encoded: str) -> Key:
    try:
        secret = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise KeyFileRefused(f"{path} line {number}: expected `<id> <base64 of {KEY_BYTES} bytes>`")
    return Key(key_id, secret)


def _ids_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.ids")


def _known_ids(path: Path) -> frozenset[str]:
    """Read the ids that were ever in the key file; without the record, none is known to be missing."""
    with contextlib.suppress(KeyFileRefused):
        return frozenset(read_private(_ids_file(path)).split())
    return frozenset()


def _remember_ids(path: Path, known: frozenset[str]) -> None:
    """Record the ids; a folder that takes no file keeps no record."""
    if known == _known_ids(path):
        return
    with contextlib.suppress(OSError):
        aside = write_aside(_ids_file(path), "".join(f"{key_id}\n" for key_id in sorted(known)))
        aside.replace(_ids_file(path))
