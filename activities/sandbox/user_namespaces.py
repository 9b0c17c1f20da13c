"""User namespaces (`hostUsers: false`): which range of the node's user and group IDs each pod has.

Read before a sandbox and before each container is created; blocks on files, so call it in a thread. A pod has one
range, which overlaps with no other pod's, for as long as its directory exists. The range is written there before it is
used, in the kubelet's file (pkg/kubelet/userns/userns_manager.go), and always read from disk.
"""

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from activities.files.atomic_files import sync_folder
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.user_ids import UNIT, IdRanges

EVERY_RANGE: Final = IdRanges()
_ALL_IDS: Final = 2**32
FILE: Final = "userns"
_FIELDS: Final = ("hostId", "containerId", "length")


class UserRangeError(ValueError):
    """No range can be allocated, or the pod's range cannot be read; the message is the kubelet's."""


class UserNamespaces:
    """The ranges of user IDs of this node's pods."""

    def __init__(self, ranges: IdRanges = EVERY_RANGE) -> None:
        self._ranges = ranges
        self._lock = threading.Lock()

    def of_pod(self, directory: Path) -> cri.UserNamespace:
        """Return the range of the pod with this directory, `pods/<uid>`; allocates one if it has none.

        Raises NoRangeError, and OSError if the directory is missing or cannot be written.
        """
        with self._lock:
            taken = list(_taken(directory.parent, but=directory))
            found = _read(directory)
            if found is None:
                found = range(first := self._free(taken), first + self._ranges.per_pod)
                self._write(directory, found)
            elif any(_overlap(found, other) for other in taken):
                raise UserRangeError(f'user namespace: range picked for pod "{directory.name}" already taken')
        mapping = cri.IDMapping(host_id=found.start, container_id=0, length=len(found))
        return cri.UserNamespace(mode=cri.NamespaceMode.POD, uids=[mapping], gids=[mapping])

    def _free(self, taken: Sequence[range]) -> int:
        """Find a free range, starting at a random one, so that a new pod does not own files that another left behind."""
        length = self._ranges.per_pod
        slots = self._ranges.count // length
        begin = secrets.randbelow(slots)
        for number in range(slots):
            first = self._ranges.first + (begin + number) % slots * length
            if not any(_overlap(range(first, first + length), other) for other in taken):
                return first
        raise UserRangeError("create user namespace: could not find an empty slot to allocate a user namespace")

    @staticmethod
    def _write(directory: Path, found: range) -> None:
        """Write a pod's range so that after a power loss it is either complete or absent."""
        mapping = dict(zip(_FIELDS, (found.start, 0, len(found)), strict=True))
        content = json.dumps({"uidMappings": [mapping], "gidMappings": [mapping]}, separators=(",", ":"))
        new = directory / f".{FILE}.new"
        with new.open("w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(directory / FILE)
        sync_folder(directory)


def _read(directory: Path) -> range | None:
    """Read the range of a pod, None if it has none yet.

    A pod keeps its range when the configured ranges change.
    """
    try:
        content = (directory / FILE).read_bytes()
    except FileNotFoundError:
        return None
    if not content:
        return None
    try:
        found = json.loads(content)
    except ValueError as error:
        raise UserRangeError(f"user namespace: invalid user namespace mappings file: {error}") from error
    host_id, length = _only_mapping(found)
    if length < UNIT or length % UNIT:
        raise UserRangeError(f"user namespace: wrong user namespace length {length}")
    if host_id % UNIT:
        raise UserRangeError(f"user namespace: wrong user namespace offset specified {host_id}")
    if not UNIT <= host_id <= _ALL_IDS - length:
        raise UserRangeError(f"user namespace: id {host_id} is out of range")
    return range(host_id, host_id + length)


def _taken(pods: Path, *, but: Path) -> Iterator[range]:
    """Return the ranges of all pods but one; an unreadable file is skipped, because its pod does not start."""
    for other in pods.iterdir():
        if other != but:
            try:
                found = _read(other)
            except (UserRangeError, OSError):
                continue
            if found is not None:
                yield found


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _only_mapping(found: Any) -> tuple[int, int]:
    """Return the single mapping that users and groups share: its first ID, and how many there are."""
    users, groups = (found.get(kind) if isinstance(found, Mapping) else None for kind in ("uidMappings", "gidMappings"))
    wrong = "user namespace: invalid user namespace configuration"
    if not isinstance(users, list) or len(users) != 1:
        raise UserRangeError(f"{wrong}: no more than one mapping allowed.")
    if users != groups:
        raise UserRangeError(f"{wrong}: GID and UID mapping should be identical")
    host_id, container_id, length = (users[0].get(field) for field in _FIELDS)
    if container_id != 0:
        raise UserRangeError(f"{wrong}: UID 0 must be mapped")
    if not isinstance(host_id, int) or not isinstance(length, int):
        raise UserRangeError(f"{wrong}: no range")
    return host_id, length
