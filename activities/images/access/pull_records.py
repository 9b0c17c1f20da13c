"""The image pull records on this node's disk, with a copy in memory.

`<root-dir>/image_manager/pulling` and `pulled`, as in the kubelet. The worker is the only writer, so its memory is
right after reading them once, except for files that an operator removes; these are looked for before memory is used.
The intent of a pull is on disk before the pull starts and stays until its record is: a crash, of the machine too, can
only remove rights. Methods block unless their docstring says "in memory".
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from activities.files.atomic_files import sync_folder
from activities.images.access.record_format import (
    PREFIX,
    SUFFIX_OF_UNFINISHED,
    BrokenRecord,
    PulledRecord,
    Rights,
    file_name,
    read_intent,
    read_pulled,
    write_intent,
    write_pulled,
)
from activities.images.access.verification import Known, name_of

_Content = TypeVar("_Content")
_log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class PullRecords:
    """Which images were pulled with which credentials, and which pulls were started."""

    root_dir: Path
    _pulled: dict[str, PulledRecord | None] = field(default_factory=dict)
    """By file name; None for an unreadable record."""
    _intents: dict[str, str] = field(default_factory=dict)
    """File name -> image."""
    _pulled_written: set[str] = field(default_factory=set)
    """Records whose file equals memory; one that is not written yet cannot have been removed."""
    _intents_written: set[str] = field(default_factory=set)

    @property
    def pulling_dir(self) -> Path:
        """The folder of intents."""
        return self.root_dir / "image_manager" / "pulling"

    @property
    def pulled_dir(self) -> Path:
        """The folder of records."""
        return self.root_dir / "image_manager" / "pulled"

    def load(self) -> None:
        """Make the folders and read all files."""
        for folder in (self.pulling_dir, self.pulled_dir):
            _make(folder)
        intents = dict(_read_all(self.pulling_dir, read_intent))
        self._intents = {name: image for name, image in intents.items() if image and file_name(image) == name}
        self._pulled = {
            name: one if one and file_name(one.image_ref) == name else None
            for name, one in _read_all(self.pulled_dir, read_pulled)
        }
        self._intents_written, self._pulled_written = set(self._intents), set(self._pulled)

    def removed(self) -> tuple[set[str], set[str]]:
        """List the intents and records that were removed from the disk by others; raises OSError."""
        return (
            self._intents_written - _listed(self.pulling_dir),
            self._pulled_written - _listed(self.pulled_dir),
        )

    def forget_removed(self, intents: Collection[str], pulled: Collection[str], kept: Collection[str]) -> list[str]:
        """Drop what `removed` listed, in memory. Returns the images of `kept` whose intent must be written again."""
        for name in self._pulled_written.intersection(pulled):
            self._pulled_written.remove(name)
            del self._pulled[name]
        again = []
        for name in self._intents_written.intersection(intents):
            self._intents_written.remove(name)
            if self._intents[name] in kept:
                again.append(self._intents[name])
            else:
                del self._intents[name]
        return again

    def known(self, image: str, image_ref: str) -> Known:
        """Return what is known of an image that is on the node, in memory."""
        name = file_name(image_ref)
        record = self._pulled.get(name)
        broken = record is None and name in self._pulled
        return Known(record, intended=file_name(image) in self._intents, broken=broken)

    def intents(self) -> tuple[str, ...]:
        """List the images whose pull was started, in memory."""
        return tuple(self._intents.values())

    def intend(self, image: str) -> None:
        """Write the intent of a pull; raises OSError."""
        name = file_name(image)
        if name not in self._intents_written:
            _write(self.pulling_dir / name, write_intent(image))
            self._intents[name] = image
            self._intents_written.add(name)

    def forget_intent(self, image: str) -> None:
        """Remove the intent of a pull; raises OSError."""
        name = file_name(image)
        if name in self._intents:
            _remove(self.pulling_dir / name)
            self._intents_written.discard(name)
            del self._intents[name]

    def remember(self, image: str, image_ref: str, rights: Rights | None, now: datetime | None = None) -> bool:
        """Add the credentials of a pull, in memory; returns whether they are new. None: unknown, so every pod is verified.

        Until `save` has written the record, the intent of the pull must stay.
        """
        name, at = file_name(image_ref), now or datetime.now(UTC)
        known = self._pulled.get(name)
        self._pulled[name] = record = (known or PulledRecord(image_ref, updated_at=at)).merged(
            name_of(image), rights, at
        )
        if record is not known:
            self._pulled_written.discard(name)
        return record is not known

    def save(self, image_ref: str) -> None:
        """Write an image's record; raises OSError, and then it gives no rights any more."""
        name = file_name(image_ref)
        if (record := self._pulled.get(name)) is None:
            return
        try:
            _write(self.pulled_dir / name, write_pulled(record))
        except OSError:
            self._pulled[name] = None
            raise
        if self._pulled[name] is record:  # otherwise a newer one has to be written
            self._pulled_written.add(name)

    def pulled(self, image: str, image_ref: str, rights: Rights | None, now: datetime | None = None) -> None:
        """Add the credentials of a pull and write the record before returning; raises OSError."""
        if self.remember(image, image_ref, rights, now):
            self.save(image_ref)

    def prune(self, image_refs: Collection[str], until: datetime) -> None:
        """Remove the records of images that are gone, except those changed after `until`; raises OSError."""
        there = {file_name(one) for one in image_refs}
        for name, record in list(self._pulled.items()):
            if name not in there and record is not None and record.updated_at < until:
                _remove(self.pulled_dir / name)
                self._pulled_written.discard(name)
                del self._pulled[name]


def _read_all(folder: Path, read: Callable[[bytes], _Content]) -> Iterator[tuple[str, _Content | None]]:
    for path in folder.iterdir():
        if not path.name.startswith(PREFIX) or path.name.endswith(SUFFIX_OF_UNFINISHED) or path.is_dir():
            continue
        try:
            yield path.name, read(path.read_bytes())
        except (OSError, BrokenRecord) as error:
            _log.warning("%s cannot be used: %s; pods that want the image must prove that they may use it", path, error)
            yield path.name, None


def _write(path: Path, content: bytes) -> None:
    """Write a file and sync it to disk, and its folder, which an operator may have removed."""
    if not path.parent.is_dir():
        _make(path.parent)
    unfinished = path.with_name(path.name + SUFFIX_OF_UNFINISHED)
    try:
        with open(unfinished, "wb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _make(folder: Path) -> None:
    """Make a folder that only root can read."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.parent)
    sync_folder(folder.parent.parent)


def _listed(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as found:
            return {one.name for one in found}
    except FileNotFoundError:
        return set()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
