"""The issue's table: each row has ours, raw CRI, the kubelet, the ratio, the limit, and whether it is met.

Ratios are computed for pairs that are adjacent in time, and their median is shown: other load on the machine affects both of a
pair.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

HEAD: Final = ("", "tempolet", "raw CRI", "kubelet", "ratio", "owed", "")
ABSENT: Final = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One row, every cell as text; `met` is None if there is nothing to compare."""

    title: str
    ours: str = ABSENT
    raw: str = ABSENT
    kubelet: str = ABSENT
    ratio: str = ABSENT
    owed: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the cells in the order of the header."""
        verdict = {True: "met", False: "MISSED", None: ABSENT}[self.met]
        return (self.title, self.ours, self.raw, self.kubelet, self.ratio, self.owed, verdict)


@dataclass(slots=True)
class Samples:
    """Measurements by peer, pair by pair; a lap that failed is nan."""

    by_peer: dict[str, list[float]] = field(default_factory=dict)

    def add(self, peer: str, value: float) -> None:
        """Add a peer's next lap."""
        self.by_peer.setdefault(peer, []).append(value)

    def median(self, peer: str) -> float:
        """Return the median of a peer's successful laps; nan without any."""
        good = [value for value in self.by_peer.get(peer, ()) if not math.isnan(value)]
        return median(good) if good else math.nan

    def ratio(self, peer: str, to: str) -> float:
        """Return the median of the pairs' ratios; nan without a pair."""
        pairs = zip(self.by_peer.get(peer, ()), self.by_peer.get(to, ()), strict=False)
        ratios = [one / other for one, other in pairs if not math.isnan(one / other)]
        return median(ratios) if ratios else math.nan

    def failed(self, peer: str) -> int:
        """Count a peer's failed laps."""
        return sum(1 for value in self.by_peer.get(peer, ()) if math.isnan(value))


def seconds_row(title: str, samples: Samples, owed: Mapping[str, float]) -> Row:
    """Build a row of durations; `owed` has the largest allowed ratio to each peer."""
    ratios = {to: samples.ratio("tempolet", to) for to in owed}
    failed = samples.failed("tempolet")
    return Row(
        title=title + (f" ({failed} of ours failed)" if failed else ""),
        ours=seconds(samples.median("tempolet")),
        raw=seconds(samples.median("raw")),
        kubelet=seconds(samples.median("kubelet")),
        ratio=", ".join(f"{ratio:.2f} x {to}" for to, ratio in ratios.items() if not math.isnan(ratio)) or ABSENT,
        owed=", ".join(f"{limit:g} x {to}" for to, limit in owed.items()),
        met=_all_met([(ratios[to], limit) for to, limit in owed.items()], failed),
    )


def limit_row(title: str, samples: Samples, limit: float) -> Row:
    """Build a row of durations with a limit in seconds."""
    ours, to_kubelet = samples.median("tempolet"), samples.ratio("tempolet", "kubelet")
    failed = samples.failed("tempolet")
    return Row(
        title=title + (f" ({failed} of ours failed)" if failed else ""),
        ours=seconds(ours),
        raw=seconds(samples.median("raw")),
        kubelet=seconds(samples.median("kubelet")),
        ratio=ABSENT if math.isnan(to_kubelet) else f"{to_kubelet:.2f} x kubelet",
        owed=seconds(limit) if limit else "",
        met=_all_met([(ours, limit)], failed) if limit else None,
    )


def difference_row(title: str, samples: Samples, limit: float) -> Row:
    """Build a row of differences, which have no ratios, with a `limit` in seconds."""
    failed, ours = samples.failed("tempolet"), samples.median("tempolet")
    return Row(
        title=title + (f" ({failed} of ours failed)" if failed else ""),
        ours=seconds(ours),
        kubelet=seconds(samples.median("kubelet")),
        owed=seconds(limit),
        met=_all_met([(ours, limit)], failed),
    )


def seconds(value: float) -> str:
    """Format a duration, with three digits below ten seconds."""
    if math.isnan(value):
        return ABSENT
    return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


def render(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """Format the table as Markdown, aligned for a terminal, with notes below."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    write: Callable[[Sequence[str]], str] = lambda line: (  # noqa: E731 - only here, and shorter than a function
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
    )
    ruler = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([write(HEAD), ruler, *(write(line) for line in lines[1:]), "", *(f"- {note}" for note in notes)])


def _all_met(figures: Sequence[tuple[float, float]], failed: int) -> bool | None:
    if failed:
        return False
    known = [(value, limit) for value, limit in figures if not math.isnan(value)]
    return all(value <= limit for value, limit in known) if len(known) == len(figures) else None
