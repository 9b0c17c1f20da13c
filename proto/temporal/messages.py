"""How long a message may be that goes through history and status."""

from typing import Final

MAX_MESSAGE: Final = 2048
"""Characters; a runtime can quote whole specs."""


def shorten(message: str) -> str:
    """Cut a message to what history and status can carry."""
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"
