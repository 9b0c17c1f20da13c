"""Removes credentials from messages of a runtime or a program.

The error of a pull quotes what was sent or received: the address of a token server with a user in it, the signed address
of a layer, a login that a registry sent back. Messages are scrubbed where they arrive, before they can be logged or
raised.
"""

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"']+@")
_QUERY_VALUE: Final = re.compile(r"(?<=[?&])(?!(?:scope|service|ns)=)([\w.~%-]+)=[^&\s\"']+")
"""Signed addresses carry their signature there; the scope of a registry request may stay."""
_BEARER: Final = re.compile(r"\b(Basic|Bearer) +[A-Za-z0-9+/=._~-]{8,}")


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Hide logins in addresses and headers, and each of `secrets` (the longest first)."""
    for one in secrets:
        text = text.replace(one, HIDDEN)
    text = _USERINFO.sub(f"{HIDDEN}@", text)
    text = _QUERY_VALUE.sub(rf"\1={HIDDEN}", text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)
