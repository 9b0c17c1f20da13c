"""What a runtime or a program has said, without what must not be told.

An error of a pull quotes what went over the wire: the address of a token's server with a user in it, a signed address of a
layer, a login that a registry sent back. Scrubbed where the words come in, before anybody can log or raise them.
"""

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@\"']+@")
_QUERY_VALUE: Final = re.compile(r"(?<=[?&])(?!(?:scope|service|ns)=)([\w.~%-]+)=[^&\s\"']+")
"""Signed addresses carry their signature there; what of a registry is asked for may stay."""
_BEARER: Final = re.compile(r"\b(Basic|Bearer) +[A-Za-z0-9+/=._~-]{8,}")


def scrubbed(text: str, secrets: Iterable[str] = ()) -> str:
    """Hide logins in addresses and headers, and each of `secrets` (the longest first) wherever it stands."""
    for one in secrets:
        text = text.replace(one, HIDDEN)
    text = _USERINFO.sub(f"{HIDDEN}@", text)
    text = _QUERY_VALUE.sub(rf"\1={HIDDEN}", text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)
