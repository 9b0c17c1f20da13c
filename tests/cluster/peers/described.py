"""The output of `kubectl describe`, without what must differ between nodes: times, names, addresses and ids.

Used to compare our node with the real kubelet's line by line. Events are compared as a set: their number and order are not
guaranteed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_REPLACED: Final = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"containerd://[0-9a-f]{64}", "containerd://ID"),
        (r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access-X"),
        (r"\b10\.2(?:14|15|20|21)\.\d+\.\d+\b", "ADDRESS"),
        (r"rpc error: code = \w+ desc = ", ""),  # the prefix of gRPC errors, which our node omits
        (r"(?<=%\)) +\d+[smh]\w*$", " AGE"),
        (r"(?<=Restart Count:) +\d+$", " N"),  # in a crash loop it depends on the moment
        (r"(?<=\S) +", " "),
    )
)
_EVENT: Final = re.compile(r"  (Normal|Warning) {2,}(\S+) {2,}.*? {2,}(\S+) {2,}(.*)")
_EVENTS: Final = "Events:"


@dataclass(frozen=True, slots=True)
class Described:
    """A comparable description."""

    lines: tuple[str, ...]
    events: frozenset[tuple[str, str, str, str]]
    """Each with type, reason, source and message."""

    def without(self, beginnings: tuple[str, ...]) -> "Described":
        """Leave out lines with these prefixes, and events with these prefixes of reasons."""
        if not beginnings:
            return self
        lines = tuple(line for line in self.lines if not line.strip().startswith(beginnings))
        return Described(lines, frozenset(one for one in self.events if not one[1].startswith(beginnings)))

    @property
    def reasons(self) -> frozenset[str]:
        """Return the events' reasons."""
        return frozenset(reason for _, reason, _, _ in self.events)


def read_description(text: str, names: Mapping[str, str]) -> Described:
    """Parse a description; each of `names` is replaced by its placeholder."""
    above, _, below = text.partition(f"\n{_EVENTS}")
    lines = (alike(line, names) for line in above.splitlines())
    return Described(tuple(line for line in lines if line), frozenset(_events(below, names)))


def alike(text: str, names: Mapping[str, str]) -> str:
    """Normalize a text, so that the same text about another node is equal."""
    for name, word in names.items():
        text = text.replace(name, word)
    for pattern, word in _REPLACED:
        text = pattern.sub(word, text)
    return text.rstrip()


def _events(table: str, names: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Read the rows of the table of events; a message may have several lines."""
    rows: list[list[str]] = []
    for line in table.splitlines():
        if found := _EVENT.fullmatch(line):
            rows.append([*found.groups()])
        elif rows:
            rows[-1][-1] += f"\n{line}"
    return [(kind, reason, source, alike(message, names)) for kind, reason, source, message in rows]
