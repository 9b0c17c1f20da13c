"""The length of messages in histories and statuses."""

from typing import Final

MAX_MESSAGE: Final = 2048
"""Bytes; a runtime may quote whole specs."""
_CUT: Final = "…"


def shorten(message: str) -> str:
    """Shorten a message for histories and statuses."""
    whole = message.encode(errors="replace")
    if len(whole) <= MAX_MESSAGE:
        return message
    return f"{whole[: MAX_MESSAGE - len(_CUT.encode())].decode(errors='ignore')}{_CUT}"
