"""Makes text from containers or the runtime safe for a terminal."""

import unicodedata


def printable(text: str) -> str:
    """Escape control characters: a message stays one line and sets no colours."""
    return "".join(one if unicodedata.category(one) not in {"Cc", "Cf", "Zl", "Zp"} else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
