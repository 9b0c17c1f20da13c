"""What two texts of /metrics have in common: families with their types, help texts, labels and buckets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from worker.telemetry.exposition import Family, parse_families

DOCUMENT: Final = Path("docs/metrics.md")
OUR_LABELS: Final = frozenset({"process"})
"""What each of our three processes counts for itself has this label."""
BUCKET: Final = "le"
_LABEL: Final = re.compile(r'[{,]([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')


def left_out(document: str) -> list[str]:
    """Return the names that stay out by a document's table; `*` stands for any ending."""
    rows = (line.split("|")[1] for line in document.splitlines() if line.startswith("| `"))
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def absent(ours: str, theirs: str) -> list[str]:
    """Return the families that only the kubelet has."""
    return sorted(parse_families(theirs).keys() - parse_families(ours).keys())


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a pattern is about."""
    return [one for one in names if fnmatchcase(one, pattern)]


def differences(ours: str, theirs: str) -> Iterator[tuple[str, str, object, object]]:
    """Yield what differs in the families that both have: name, what, ours, theirs."""
    own, other = parse_families(ours), parse_families(theirs)
    for name in sorted(own.keys() & other.keys()):
        one, two = _described(own[name]), _described(other[name])
        yield from ((name, what, one[what], two[what]) for what in one if one[what] != two[what])


def _described(family: Family) -> Mapping[str, object]:
    found = [_LABEL.findall(line) for line in family.lines]
    names = {name for pairs in found for name, _ in pairs}
    buckets = {value for pairs in found for name, value in pairs if name == BUCKET}
    return {
        "type": family.kind,
        "help": family.help,
        "labels": names - OUR_LABELS - {BUCKET},
        "buckets": sorted(buckets, key=float),
    }
