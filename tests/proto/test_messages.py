"""Is a message cut by its bytes, which fill a history, and between two characters?"""

import pytest

from proto.messages import MAX_MESSAGE, shorten


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        pytest.param("x" * MAX_MESSAGE, "x" * MAX_MESSAGE, id="just-short-enough"),
        pytest.param("x" * (MAX_MESSAGE + 1), "x" * (MAX_MESSAGE - 3) + "…", id="one-byte-a-character"),
        pytest.param(
            "\N{CJK UNIFIED IDEOGRAPH-20000}" * MAX_MESSAGE,
            "\N{CJK UNIFIED IDEOGRAPH-20000}" * 511 + "…",
            id="four-bytes-a-character",
        ),
        pytest.param("\udc80" * 3000, "?" * (MAX_MESSAGE - 3) + "…", id="no-characters-at-all"),
    ],
)
def test_a_message_is_cut_by_bytes(message: str, kept: str) -> None:
    """A runtime may quote what a container wrote."""
    assert shorten(message) == kept
    assert len(shorten(message).encode()) <= MAX_MESSAGE
