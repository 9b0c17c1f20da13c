"""Is a set read only if it is one of this machine?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.topology.number_sets import LONGEST, read_set

EVERY = frozenset(range(8))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "1,",
        "-1",
        "1-",
        "2-1",
        "+1",
        " 1",
        "1\n",
        "\uff11",
        "0x1",
        "1-2-3",
        "8",
        "0-8",
        "1-9999999",
        "0," * LONGEST + "0",
    ],
)
def test_what_is_no_set(text: str) -> None:
    """Linux writes none of these of such a machine."""
    assert read_set(text, EVERY) is None


def test_numbers_that_are_left_out() -> None:
    """A machine may have gaps."""
    assert read_set("1-3", frozenset({1, 3})) is None
    assert read_set("1,3", frozenset({1, 3})) == frozenset({1, 3})


@given(st.frozensets(st.integers(0, 7), min_size=1))
def test_what_linux_writes(numbers: frozenset[int]) -> None:
    """It is read."""
    assert read_set(written_cpus(numbers), EVERY) == numbers
