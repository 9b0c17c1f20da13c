"""Words that a container or a runtime chose, made harmless for a terminal."""

import unicodedata


def printable(text: str) -> str:
    """Write control characters as escapes: a message is one line and colours nothing."""
    return "".join(one if unicodedata.category(one) not in {"Cc", "Cf", "Zl", "Zp"} else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
