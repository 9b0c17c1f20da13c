"""The length of messages in histories and statuses."""

from typing import Final

MAX_MESSAGE: Final = 2048
"""Characters; a runtime may quote whole specs."""


def shorten(message: str) -> str:
    """Shorten a message for histories and statuses."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"
