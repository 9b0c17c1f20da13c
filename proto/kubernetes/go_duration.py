"""Durations as Kubernetes writes them: `1m30s`, `2h`, `100ms`.

Used for every metav1.Duration of a configuration, and for messages. The grammar is that of Go's `time.ParseDuration`;
Python's timedelta rounds to microseconds.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "\u00b5s": Decimal("1e-6"),  # micro sign
    "\u03bcs": Decimal("1e-6"),  # Greek mu, which Go takes too
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
_LARGEST: Final = Decimal(2**63) / Decimal(10**9)  # int64 nanoseconds, some 292 years
_LONGEST: Final = 128
"""Characters. The text may be anyone's, and the time to divide it into parts grows with its square."""


def parse_duration(text: str) -> timedelta:
    """Parse a duration; raises ValueError, which says how one is written."""
    if len(text) > _LONGEST:
        raise ValueError(f"{text[:_LONGEST]!r}… is no duration: it has more than {_LONGEST} characters")
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if unsigned == "0":
        return timedelta()
    parts = list(_PART.finditer(unsigned))
    if not parts or "".join(part.group() for part in parts) != unsigned:
        raise ValueError(f"{text!r} is no duration: write it like 90s, 1m30s, 2h or 100ms")
    seconds = sum((Decimal(part[1]) * _UNITS[part[2]] for part in parts), Decimal())
    if seconds >= _LARGEST:
        raise ValueError(f"{text!r} is longer than a duration can be (292 years)")
    found = timedelta(microseconds=round(seconds * 1_000_000))
    return -found if text.startswith("-") else found


def format_duration(duration: timedelta) -> str:
    """Write a duration as Go does, so that it can be copied into a configuration."""
    if duration < timedelta():
        return f"-{format_duration(-duration)}"
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    if microseconds < 1_000:
        return f"{microseconds}\u00b5s"
    if microseconds < 1_000_000:
        return f"{_trimmed(Decimal(microseconds) / 1_000)}ms"
    minutes, rest = divmod(Decimal(microseconds) / 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    said = f"{hours}h" if hours else ""
    said += f"{minutes}m" if hours or minutes else ""
    return f"{said}{_trimmed(rest)}s"


def _trimmed(number: Decimal) -> str:
    return f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}"
