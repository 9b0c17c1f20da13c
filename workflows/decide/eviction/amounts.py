"""Amounts of thresholds: parsed, beside a capacity, and in messages.

Shares have the kubelet's precision, so that both act at the same byte: strconv.ParseFloat in 32 bits
(pkg/kubelet/eviction/helpers.go parsePercentage), then a double times the capacity (api/types.go GetThresholdQuantity).
"""

import re
import struct
from fractions import Fraction
from typing import Final

from proto.kubernetes.go_quote import go_quoted
from proto.kubernetes.resources.quantity import NANO, ZERO, Quantity, canonical_quantity, parse_quantity, write_quantity
from proto.temporal.eviction.thresholds import Amount

_DIGITS: Final = r"\d(?:_?\d)*"
_DECIMAL: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?", re.ASCII)
_INFINITE: Final = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)
_TOO_LARGE: Final = Fraction(2) ** 128 - Fraction(2) ** 103
"""From here on a number is rounded beyond the largest one of 32 bits."""


class PercentageError(ValueError):
    """The text is no percentage; the message is Go's."""


def parse_share(text: str) -> float:
    """Parse `10%` as a share of one; raises PercentageError.

    Not a number is no percentage here. The kubelet takes `NaN%`, for a threshold that is never met.
    """
    number = text.rstrip("%")
    if _INFINITE.fullmatch(number):
        return float(number)
    if not _DECIMAL.fullmatch(number):  # hexadecimal ones, too, which nobody writes
        raise PercentageError(f"strconv.ParseFloat: parsing {go_quoted(number)}: invalid syntax")
    return _single(_nearest(number) / 100)


def _nearest(number: str) -> float:
    """Return the float of 32 bits that is nearest to a decimal number."""
    close = float(number)
    exact = Fraction(number.replace("_", "")) if 1e-60 < abs(close) < float(_TOO_LARGE) else Fraction(0)
    if abs(exact) >= _TOO_LARGE or abs(close) >= float(_TOO_LARGE):
        raise PercentageError(f"strconv.ParseFloat: parsing {go_quoted(number)}: value out of range")
    found = _single(close)
    if found == 0:
        return 0.0
    around = [found, *(_of_bits(_bits(found) + step) for step in (-1, 1))]
    finite = (one for one in around if one - one == 0)
    return min(finite, key=lambda one: (abs(Fraction(one) - exact), _bits(one) & 1))


def _bits(number: float) -> int:
    found: int = struct.unpack("i", struct.pack("f", number))[0]
    return found


def _of_bits(bits: int) -> float:
    found: float = struct.unpack("f", struct.pack("i", bits))[0]
    return found


def _single(number: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", number))[0]
    return found


def amount_of(amount: Amount | None, capacity: int) -> Quantity:
    """Return an amount of a capacity; a share is rounded down to whole units, in the precision of a double."""
    if amount is None:
        return ZERO
    if amount.quantity:
        return parse_quantity(amount.quantity)
    return Quantity(int(float(capacity) * amount.share) * NANO)


def amount_text(amount: Amount, capacity: int) -> str:
    """Write an amount; a share has a binary suffix, even of inodes."""
    return amount.quantity or size_text(int(float(capacity) * amount.share))


def size_text(size: int) -> str:
    """Write bytes: `100Mi`, `3000` for what no binary suffix divides, `1k` below 1024."""
    return write_quantity(Quantity(size * NANO), "Ki")


def count_text(count: int) -> str:
    """Write a number of inodes or processes: `32k`."""
    return canonical_quantity(count)
