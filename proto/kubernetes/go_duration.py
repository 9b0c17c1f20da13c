"""Durations as Kubernetes writes them: `1m30s`, `2h`, `100ms`.

Used for every metav1.Duration of a configuration, and for messages. The grammar is that of Go's `time.ParseDuration`;
Python's timedelta rounds to microseconds.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

from proto.kubernetes.go_quote import go_quoted

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
_MOST: Final = 2**63
_NUMBER: Final = re.compile(r"(\d*)(\.\d*)?", re.ASCII)
_UNIT: Final = re.compile(r"[^0-9.]*")
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


def why_no_duration(text: str) -> str:
    """Return Go's words for a text that is no duration; empty for a duration (time.ParseDuration)."""
    wrong = f"time: invalid duration {go_quoted(text)}"
    rest, total = (text[1:] if text[:1] in ("-", "+") else text), Decimal()
    if not rest:
        return wrong
    if rest == "0":
        return ""
    while rest:
        number = _NUMBER.match(rest)
        assert number is not None  # it matches nothing, too
        whole, fraction = number[1], (number[2] or ".")[1:]
        if not whole + fraction or len(whole.lstrip("0")) > len(str(_MOST)):
            return wrong
        unit = _UNIT.match(rest, number.end())
        assert unit is not None
        if not unit[0]:
            return f"time: missing unit in duration {go_quoted(text)}"
        if unit[0] not in _UNITS:
            return f"time: unknown unit {go_quoted(unit[0])} in duration {go_quoted(text)}"
        total += Decimal(f"{whole or 0}.{fraction or 0}") * _UNITS[unit[0]] * 10**9
        if total > _MOST:
            return wrong
        rest = rest[unit.end() :]
    return wrong if total == _MOST and not text.startswith("-") else ""


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
