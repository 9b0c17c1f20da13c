"""The objects of a standalone node as files: `<folder>/<namespace>/<plural>/<name>.yaml` (.yml, .json).

Used by the activities; `worker/poller/object_watch.py` watches the same files for changes. Cluster-scoped objects are in
`_cluster/<plural>/`, which is not a valid namespace. An unchanged file is not parsed again.
"""

import asyncio
import contextlib
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject
from worker.documents.manifest_document import read_document
from worker.documents.manifest_refusal import ManifestUnreadable
from worker.machine.fingerprint import Fingerprint
from worker.objects.trusted_file import (
    SETTLE_SECONDS,
    BeingWritten,
    NotTrusted,
    read_trusted,
    trusted_folder,
)
from worker.objects.validation import ObjectInvalid, expected_kind, validate

CLUSTER: Final = "_cluster"
SUFFIXES: Final = (".yaml", ".yml", ".json")
_READS: Final = 20
"""Tries to read a file that is being written: two seconds."""
_LARGEST_CACHE: Final = 8 << 20  # bytes of files; evicted ones are read again
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_NAME: Final = 253
_LONGEST_NAMESPACE: Final = 63
_PLACE: Final = re.compile(r"line \d+(?:, column \d+)?")


@dataclass(frozen=True, slots=True)
class _Read:
    """A file as it was read."""

    path: Path
    fingerprint: Fingerprint
    kept: StoredObject


class ObjectFolder:
    """An ObjectSource backed by a folder; safe for concurrent tasks of one loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cache: OrderedDict[Path, _Read] = OrderedDict()

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Read an object; raises ObjectMissing and ObjectRefused."""
        parts = object_path(kind, namespace, name)
        for _ in range(_READS):
            try:
                read = await asyncio.to_thread(self._read, kind, namespace, parts)
            except BeingWritten:
                await asyncio.sleep(SETTLE_SECONDS)
                continue
            self._remember(self.folder.joinpath(*parts), read)
            return read.kept
        raise ObjectRefused(f'{kind.singular} "{name}" is being written for two seconds now: put it there by mv')

    def _read(self, kind: ObjectKind, namespace: str, parts: tuple[str, str, str]) -> _Read:
        """Read in a thread; raises BeingWritten while the file is being written."""
        *folders, name = parts
        place = self.folder.joinpath(*folders)
        known = self._cache.get(place / name)
        found: list[tuple[Path, bytes | None, Fingerprint]] = []
        try:
            with trusted_folder(self.folder, folders) as folder:
                for path in (place / f"{name}{suffix}" for suffix in SUFFIXES):
                    with contextlib.suppress(FileNotFoundError):
                        before = known.fingerprint if known and known.path == path else None
                        private = kind is ObjectKind.SECRETS
                        found.append((path, *read_trusted(folder, path, before, private=private)))
        except FileNotFoundError:
            found = []
        except NotTrusted as error:
            raise ObjectRefused(f'{kind.singular} "{name}" is refused: {error}') from error
        if not found:
            raise ObjectMissing(kind, name, f"there is no {place / name}.yaml")
        if len(found) > 1:
            raise ObjectRefused(f'{kind.singular} "{name}" is defined by {found[0][0]} and {found[1][0]}: keep one')
        ((path, data, fingerprint),) = found
        if data is None and known:
            return known
        return _Read(
            path, fingerprint, StoredObject(fingerprint.version, parse_object(kind, namespace, path, data or b""))
        )

    def _remember(self, path: Path, read: _Read) -> None:
        self._cache[path] = read
        self._cache.move_to_end(path)
        while len(self._cache) > 1 and sum(one.fingerprint.size for one in self._cache.values()) > _LARGEST_CACHE:
            self._cache.popitem(last=False)


def object_path(kind: ObjectKind, namespace: str, name: str) -> tuple[str, str, str]:
    """Return the two folders and the file name without suffix; raises ObjectRefused for an invalid name."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ObjectRefused(f"{kind.singular} {name[:80]!r} is not looked up: that is not a valid object name")
    if not kind.namespaced:
        return CLUSTER, str(kind), name
    if len(namespace) > _LONGEST_NAMESPACE or not _NAMESPACE.fullmatch(namespace):
        raise ObjectRefused(f'{kind.singular} "{name}" is not looked up: {namespace[:80]!r} is not a valid namespace')
    return namespace, str(kind), name


def parse_object(kind: ObjectKind, namespace: str, path: Path, data: bytes) -> dict[str, Any]:
    """Parse a file as an object; raises ObjectRefused, whose message contains nothing of the content."""
    which = f'{kind.singular} "{path.stem}" is refused: {path}'
    try:
        return validate(kind, namespace, path.stem, read_document(data, expected_kind(kind)))
    except ObjectInvalid as error:
        raise ObjectRefused(f"{which}: {error}") from None
    except ManifestUnreadable as error:  # its message may quote the content
        at = _PLACE.search(str(error))
        where = f" at {at[0]}" if at else ""
        raise ObjectRefused(f"{which}: {error.reason}{where}: {expected_kind(kind)} is expected") from None
