"""Is a quantity parsed as exactly the number that Kubernetes parses?

The rows were compared with k8s.io/apimachinery 0.36.3 itself; where that overflows int64, ours is capped.
"""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.kubernetes.resources.quantity import MAX_VALUE, Quantity, QuantityError, canonical_quantity, parse_quantity


@pytest.mark.parametrize(
    ("raw", "value", "milli", "canonical"),
    [
        pytest.param("100m", 1, 100, "100m", id="a-tenth-of-a-processor-rounds-up-to-one"),
        pytest.param("0.1", 1, 100, "100m", id="fraction"),
        pytest.param(".5", 1, 500, "500m", id="no-leading-digit"),
        pytest.param("1.", 1, 1000, "1", id="no-digit-behind-the-point"),
        pytest.param("0.1m", 1, 1, "100u", id="finer-than-a-thousandth-rounds-up"),
        pytest.param("0.1n", 1, 1, "1n", id="finer-than-a-billionth-rounds-up"),
        pytest.param("1000m", 1, 1000, "1", id="canonical-form-takes-the-largest-suffix"),
        pytest.param("1536Mi", 1536 * 2**20, 1536 * 2**20 * 1000, "1536Mi", id="binary-keeps-whole-steps"),
        pytest.param("1.5Gi", 1536 * 2**20, 1536 * 2**20 * 1000, "1536Mi", id="binary-fraction"),
        pytest.param("0.5Ki", 512, 512_000, "512", id="small-binary-is-shown-as-decimal"),
        pytest.param("1e3", 1000, 1_000_000, "1e3", id="exponent"),
        pytest.param("1E3", 1000, 1_000_000, "1e3", id="capital-exponent"),
        pytest.param("1E", 10**18, MAX_VALUE, "1E", id="E-alone-is-exa-and-its-thousandths-are-capped"),
        pytest.param("9Ei", MAX_VALUE, MAX_VALUE, "9223372036854775807", id="capped-at-int64"),
        pytest.param("1e2000000000", MAX_VALUE, MAX_VALUE, "9223372036854775807", id="huge-exponent-is-only-capped"),
        pytest.param("1e-2000000000", 1, 1, "1e-9", id="tiny-exponent-is-the-least-there-is"),
        pytest.param("0e99999", 0, 0, "0", id="nought-stays-nought"),
        pytest.param("-1500m", -2, -1500, "-1500m", id="negative-rounds-away-from-zero"),
        pytest.param("+1", 1, 1000, "1", id="plus-sign"),
        pytest.param(" 1 ", 1, 1000, "1", id="space-around-it-is-taken-as-the-API-does"),
        pytest.param(1, 1, 1000, "1", id="json-int"),
        pytest.param(0.5, 1, 500, "500m", id="json-float"),
        pytest.param(1048576, 1048576, 1048576000, "1048576", id="json-bytes"),
        pytest.param(1e22, MAX_VALUE, MAX_VALUE, "9223372036854775807", id="json-float-with-exponent"),
    ],
)
def test_reads(raw: object, value: int, milli: int, canonical: str) -> None:
    """What Kubernetes accepts is accepted, with its rounding."""
    quantity = parse_quantity(raw)
    assert (quantity.value, quantity.milli) == (value, milli)
    assert canonical_quantity(raw) == canonical


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="blank"),
        pytest.param("Ki", id="suffix-alone"),
        pytest.param("-", id="sign-alone"),
        pytest.param(".", id="point-alone"),
        pytest.param("1.1.1", id="two-points"),
        pytest.param("1K", id="capital-k-is-no-suffix"),
        pytest.param("1ki", id="small-ki-is-no-suffix"),
        pytest.param("1e", id="exponent-without-digits"),
        pytest.param("1e3Ki", id="two-suffixes"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("1 Gi", id="space-inside"),
        pytest.param("1_000", id="python-underscore"),
        pytest.param("\u0661", id="digits-of-another-script"),
        pytest.param("1" * 5000, id="too-many-digits"),
        pytest.param(10**5000, id="too-large-json-number"),
        pytest.param("1e" + "9" * 30, id="exponent-beyond-all-measure"),
        pytest.param(True, id="json-true"),
        pytest.param(None, id="json-null"),
        pytest.param(float("nan"), id="not-a-number"),
        pytest.param(float("inf"), id="infinite"),
        pytest.param([1], id="a-list"),
    ],
)
def test_refuses(raw: object) -> None:
    """Anything else is refused with a message."""
    with pytest.raises(QuantityError, match="quantit"):
        parse_quantity(raw)


SCALES: dict[str, Fraction] = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "k": Fraction(1000),
    "e3": Fraction(1000),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
}


@given(st.integers(0, 10**12), st.integers(0, 9), st.sampled_from(sorted(SCALES)))
def test_is_exact(amount: int, places: int, suffix: str) -> None:
    """The result is within a billionth of the fraction in the text; and never less."""
    scale = SCALES[suffix]
    digits = str(amount).zfill(places + 1)
    text = f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}{suffix}"
    exact = Fraction(amount, 10**places) * scale
    if exact < MAX_VALUE:
        assert 0 <= Fraction(parse_quantity(text).nanos, 10**9) - exact < Fraction(1, 10**9)


@given(st.integers(0, 10**24), st.sampled_from(["n", "u", "m", "", "k", "Ki", "Ei", "e-3", "e7"]))
def test_canonical_form_is_the_same_amount(amount: int, suffix: str) -> None:
    """Formatting a quantity loses nothing."""
    assert parse_quantity(canonical_quantity(f"{amount}{suffix}")) == parse_quantity(f"{amount}{suffix}")


@given(st.text(max_size=40) | st.floats() | st.integers() | st.booleans() | st.none())
def test_never_raises_anything_else(raw: object) -> None:
    """For any text, the result is a quantity or QuantityError."""
    with contextlib.suppress(QuantityError):
        assert isinstance(parse_quantity(raw), Quantity)
