"""Kubernetes quantities (`100m`, `1.5Gi`, `1e3`) as exact numbers.

An amount is a whole number of nanos, the finest unit of resource.Quantity (k8s.io/apimachinery
pkg/api/resource/quantity.go), never a float, so that a request equals its limit when Kubernetes says so. Finer amounts
are rounded away from zero; what is larger than int64 is capped.
"""

import functools
import re
from dataclasses import dataclass
from typing import Any, Final

NANO: Final = 10**9
MAX_VALUE: Final = 2**63 - 1
MAX_NANOS: Final = MAX_VALUE * NANO
MAX_DIGITS: Final = 4096
"""Longer numbers are rejected: parsing an int takes quadratic time."""

KNOWN: Final = 256
"""How many parsed amounts are cached: each decision about a pod sums up the same ones, a few for each container."""

_SHAPE: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # the API's words
)


class QuantityError(ValueError):
    """The text is not a quantity; the message is the API's."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in nanos; compared by amount alone, however it was written."""

    nanos: int

    @property
    def value(self) -> int:
        """Whole units (bytes, processors), rounded away from zero."""
        return _divide_away_from_zero(self.nanos, NANO)

    @property
    def milli(self) -> int:
        """Thousandths (milli-CPU), rounded away from zero and capped at int64."""
        return min(_divide_away_from_zero(self.nanos, 10**6), MAX_VALUE)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0


ZERO: Final = Quantity(0)


def parse_quantity(raw: Any) -> Quantity:
    """Parse a quantity from JSON: a string or, as in Kubernetes, a number.

    Raises QuantityError with the API's message.
    """
    return _parse(raw)[0]


def canonical_quantity(raw: Any) -> str:
    """Format a quantity as the API server does: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`.

    Raises QuantityError.
    """
    return write_quantity(*_parse(raw))


def parse_with_form(raw: Any) -> tuple[Quantity, str]:
    """Parse a quantity; also returns the family of its suffix: `Ki` binary, `e` exponent, `m` decimal. Raises QuantityError."""
    return _parse(raw)


def write_quantity(quantity: Quantity, form: str) -> str:
    """Format a quantity with a family of suffixes, as resource.Quantity.String does; too small for a binary one, it is decimal."""
    if not quantity:
        return "0"
    if form == "Ki" and abs(quantity.nanos) >= 1024 * NANO and quantity.nanos % NANO == 0:
        return _with_binary_suffix(quantity.nanos // NANO)
    mantissa, exponent = quantity.nanos, -9
    while exponent < 18 and mantissa % 1000 == 0:
        mantissa, exponent = mantissa // 1000, exponent + 3
    suffix = (f"e{exponent}" if exponent else "") if form == "e" else _DECIMAL_NAMES[exponent]
    return f"{mantissa}{suffix}"


def bytes_quantity(value: int) -> str:
    """Format an amount of bytes as the API server does: `1Gi`, `24653808Ki`."""
    return canonical_quantity(_with_binary_suffix(value) if value >= 1024 else value)


def _parse(raw: Any) -> tuple[Quantity, str]:
    """Parse a JSON value; also returns the family of its suffix: `Ki` binary, `e` exponent, `m` decimal."""
    return _parsed(_text(raw))


@functools.lru_cache(maxsize=KNOWN)
def _parsed(text: str) -> tuple[Quantity, str]:
    """Split off the suffix and scale."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise QuantityError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match[1], match[2], match[3], match[4]
    digits, places = whole + (fraction or ""), len(fraction or "")
    if not digits:  # Go's scanner reads `Ki` or `-` as zero, unlike the expression in its message
        raise QuantityError(_FORMAT_WRONG)
    if len(digits) > MAX_DIGITS:
        raise QuantityError("unable to parse numeric part of quantity")
    amount = int(digits)
    if suffix in _DECIMAL_SUFFIXES:
        form, nanos = "m", _scale(amount, _DECIMAL_SUFFIXES[suffix] - places)
    elif suffix in _BINARY_NAMES:
        form, nanos = "Ki", _scale(amount * 1024 ** _BINARY_NAMES.index(suffix), -places)
    elif (exponent := _EXPONENT.fullmatch(suffix)) and len(exponent[1]) <= 11:
        form, nanos = "e", _scale(amount, int(exponent[1]) - places)
    else:
        raise QuantityError("unable to parse quantity's suffix")
    return Quantity(-nanos if sign == "-" else nanos), form


def _text(raw: Any) -> str:
    """Return the text that Kubernetes would read."""
    match raw:
        case bool():
            raise QuantityError(_FORMAT_WRONG)
        case str():
            text = raw.strip()
        case int():
            text = str(raw) if abs(raw) < 10**MAX_DIGITS else ""
        case float():
            text = repr(raw)  # inf and nan do not match the shape
        case _:
            text = ""
    if not text:
        raise QuantityError(_FORMAT_WRONG)
    return text


def _scale(amount: int, exponent: int) -> int:
    """Return `amount * 10**exponent` in nanos, within int64, without computing a huge power."""
    power = exponent + 9
    if amount == 0:
        return 0
    if power >= 0:
        return MAX_NANOS if power > 40 else min(amount * 10**power, MAX_NANOS)
    if -power > MAX_DIGITS:
        return 1
    unit: int = 10**-power
    return min(_divide_away_from_zero(amount, unit), MAX_NANOS)


def _with_binary_suffix(value: int) -> str:
    steps = 0
    while steps < len(_BINARY_NAMES) - 1 and value % 1024 == 0:
        value, steps = value // 1024, steps + 1
    return f"{value}{_BINARY_NAMES[steps]}"


def _divide_away_from_zero(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit
