"""Matches the location of a login or a credential provider with an image; pure.

A location is a registry with an optional port and a path prefix; each label of its host may contain `*`. The rules are
those of pkg/credentialprovider/keyring.go, URLsMatch and isDefaultRegistryMatch.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

DEFAULT_REGISTRY: Final = "index.docker.io"
_HUB: Final = frozenset({"docker.io", DEFAULT_REGISTRY})
_SHAPE: Final = re.compile(r"(?P<host>[^/?#\s\x00-\x1f\x7f<>\"\\^`{|}]*)(?P<path>/[^?#\x00-\x1f\x7f]*)?([?#].*)?")
_PORT: Final = re.compile(r"[0-9]*", re.ASCII)
_KNOWN: Final = 512
"""Size of the cache of parsed locations: the same few are compared for every image."""
_LONGEST: Final = 2048
"""Characters of a location: no image has a name as long. A longer one covers nothing, and is not kept in the cache."""


class InvalidLocation(ValueError):
    """The text is not a location."""


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location."""

    host: tuple[str, ...]
    """Its labels."""
    port: str
    path: str


@lru_cache(_KNOWN)
def parse_location(text: str) -> Location:
    """Parse a location without a scheme; raises InvalidLocation."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InvalidLocation(f"{text[:200]!r} is not a registry with an optional port and path")
    name, colon, port = match["host"].rpartition("@")[2].rpartition(":")
    if not colon or port.endswith("]"):  # the last colon belongs to an IPv6 address
        name, port = name + colon + port, ""
    elif not _PORT.fullmatch(port):
        raise InvalidLocation(f"{text[:200]!r} has no number as its port")
    return Location(tuple(name.split(".")), port, unquote(match["path"] or ""))


def matches(glob: str, image: str) -> bool:
    """Report whether a location covers an image's repository; an invalid one covers nothing."""
    if len(glob) > _LONGEST:
        return False
    try:
        wanted, found = parse_location(glob), parse_location(image)
    except InvalidLocation:
        return False
    if wanted.port != found.port or len(wanted.host) != len(found.host) or not found.path.startswith(wanted.path):
        return False
    return all(_label_matches(*pair) for pair in zip(wanted.host, found.host, strict=True))


def is_on_default_registry(repository: str) -> bool:
    """Report whether a repository is on Docker Hub, judging by its name."""
    first, slash, _ = repository.partition("/")
    return bool(first) and (not slash or first in _HUB or not any(mark in first for mark in ".:"))


def _label_matches(glob: str, label: str) -> bool:
    """Match one label, each character once: a regular expression with many stars would try every way to divide it."""
    first, *middle = glob.split("*")
    if not middle:
        return first == label
    last = middle.pop()
    at, end = len(first), len(label) - len(last)
    if at > end or not label.startswith(first) or not label.endswith(last):
        return False
    for part in middle:
        found = label.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
