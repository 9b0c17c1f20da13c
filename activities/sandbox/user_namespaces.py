"""Which user and group ids of the node a pod has, whose users are its own (`hostUsers: false`).

Asked before a sandbox is made and before each container; blocks on files, so call it in a thread. A pod has one range of ids,
none of them another pod's, and keeps it as long as its directory stands: the range is written there before anybody uses it,
so what a pod has is read from the disk and never remembered (pkg/kubelet/userns/userns_manager.go, whose file this is).
"""

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.user_ids import UNIT, IdRanges

EVERY_RANGE: Final = IdRanges()
_ALL_IDS: Final = 2**32
FILE: Final = "userns"
_FIELDS: Final = ("hostId", "containerId", "length")


class NoRangeError(ValueError):
    """A pod can't be given ids, or those that it has can't be read; the message is the kubelet's."""


class UserNamespaces:
    """The ranges of this node's pods."""

    def __init__(self, ranges: IdRanges = EVERY_RANGE) -> None:
        self._ranges = ranges
        self._lock = threading.Lock()

    def of_pod(self, directory: Path) -> cri.UserNamespace:
        """Answer the range of the pod with this directory, `pods/<uid>`; one that has none gets one.

        Raises NoRangeError, and OSError where the directory is not there or can't be written.
        """
        with self._lock:
            taken = list(_taken(directory.parent, but=directory))
            found = _read(directory)
            if found is None:
                found = range(first := self._free(taken), first + self._ranges.per_pod)
                self._write(directory, found)
            elif any(_overlap(found, other) for other in taken):
                raise NoRangeError(f'user namespace: range picked for pod "{directory.name}" already taken')
        mapping = cri.IDMapping(host_id=found.start, container_id=0, length=len(found))
        return cri.UserNamespace(mode=cri.NamespaceMode.POD, uids=[mapping], gids=[mapping])

    def _free(self, taken: Sequence[range]) -> int:
        """Find a range that no pod has, from a random one on: what a pod left behind is not the next one's."""
        length = self._ranges.per_pod
        slots = self._ranges.count // length
        begin = secrets.randbelow(slots)
        for number in range(slots):
            first = self._ranges.first + (begin + number) % slots * length
            if not any(_overlap(range(first, first + length), other) for other in taken):
                return first
        raise NoRangeError("create user namespace: could not find an empty slot to allocate a user namespace")

    @staticmethod
    def _write(directory: Path, found: range) -> None:
        """Write a pod's range so that it is there after a power loss, too, or is not there at all."""
        mapping = dict(zip(_FIELDS, (found.start, 0, len(found)), strict=True))
        content = json.dumps({"uidMappings": [mapping], "gidMappings": [mapping]}, separators=(",", ":"))
        new = directory / f".{FILE}.new"
        with new.open("w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(directory / FILE)
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)


def _read(directory: Path) -> range | None:
    """Read which ids of the node a pod has, None when it has none yet.

    A pod that has some keeps them: what an operator says of the next pods' ranges since then does not touch it.
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
        raise NoRangeError(f"user namespace: invalid user namespace mappings file: {error}") from error
    host_id, length = _only_mapping(found)
    if length < UNIT or length % UNIT:
        raise NoRangeError(f"user namespace: wrong user namespace length {length}")
    if host_id % UNIT:
        raise NoRangeError(f"user namespace: wrong user namespace offset specified {host_id}")
    if not UNIT <= host_id <= _ALL_IDS - length:
        raise NoRangeError(f"user namespace: id {host_id} is out of range")
    return range(host_id, host_id + length)


def _taken(pods: Path, *, but: Path) -> Iterator[range]:
    """Give the ranges of all pods but one; a file that nobody can read says nothing, and its pod does not start."""
    for other in pods.iterdir():
        if other != but:
            try:
                found = _read(other)
            except (NoRangeError, OSError):
                continue
            if found is not None:
                yield found


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _only_mapping(found: Any) -> tuple[int, int]:
    """Read the one mapping that users and groups share: the id that it begins with, and how many there are."""
    users, groups = (found.get(kind) if isinstance(found, Mapping) else None for kind in ("uidMappings", "gidMappings"))
    wrong = "user namespace: invalid user namespace configuration"
    if not isinstance(users, list) or len(users) != 1:
        raise NoRangeError(f"{wrong}: no more than one mapping allowed.")
    if users != groups:
        raise NoRangeError(f"{wrong}: GID and UID mapping should be identical")
    host_id, container_id, length = (users[0].get(field) for field in _FIELDS)
    if container_id != 0:
        raise NoRangeError(f"{wrong}: UID 0 must be mapped")
    if not isinstance(host_id, int) or not isinstance(length, int):
        raise NoRangeError(f"{wrong}: no range")
    return host_id, length
