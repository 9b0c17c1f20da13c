"""Sets of CPUs as Linux lists write them: `0-3,8`.

The rules are k8s.io/utils/cpuset.
"""

import re
from collections.abc import Iterable
from typing import Final

Cpus = frozenset[int]

NONE: Final[Cpus] = frozenset()
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class CpuListError(ValueError):
    """A text is no list of CPUs; the message is the kubelet's."""


def written_cpus(cpus: Iterable[int]) -> str:
    """Write a set with the fewest ranges."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def parse_cpus(text: str) -> Cpus:
    """Parse a list; raises CpuListError."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        start = _number(first)
        end = _number(last) if dash else start
        if start > end:
            raise CpuListError(f'invalid range "{part}" ({start} > {end})')
        found.update(range(start, end + 1))
    return frozenset(found)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise CpuListError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
