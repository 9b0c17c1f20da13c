"""What a pod is told that waits for a device plugin, and why a plugin that has come is not in use.

A kubelet has no such words: it starts the pod without devices, or rejects it for good.
"""

from collections.abc import Iterable, Mapping
from typing import Final

LONGEST: Final = 300
"""Characters of a reason: a plugin may have put anything into it."""
_CUT: Final = "…"

LISTS_NONE: Final = "it lists no device"
LISTED_NOTHING: Final = "it has registered, but has listed no device yet"
_CLOSED: Final = "its last connection was closed: "


def registered(before: str) -> str:
    """Word that a plugin has come and not listed anything; `before` is why it was not in use.

    Why its last connection was closed stays true, and says more: a plugin that is closed each time comes again and again, and what
    waiting pods are told does not change each time.
    """
    return before if before.startswith(_CLOSED) else LISTED_NOTHING


def closed(why: str) -> str:
    """Word that the connection to a plugin is closed, by whichever side."""
    return bounded(f"{_CLOSED}{why}")


def not_registered(why: str) -> str:
    """Word that a plugin wanted to register and could not."""
    return bounded(f"its registration failed: {why}")


def bounded(text: str) -> str:
    """Cut a reason, and leave out what a terminal could take for a command."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else shown[: LONGEST - len(_CUT)] + _CUT


def why_awaited(lacking: Iterable[str], unused: Mapping[str, str]) -> str:
    """Tell a pod which resources have no devices here, each with why its plugin is not in use if one has come."""
    names = sorted(lacking)
    never = [name for name in names if name not in unused]
    told = [f"no device plugin has registered {', '.join(never)} yet"] if never else []
    told += [f"the device plugin of {name} is not in use: {unused[name]}" for name in names if name in unused]
    then = (
        "one does" if len(never) == len(names) else "all of them list devices" if len(names) > 1 else "it lists devices"
    )
    return f"{'; '.join(told)}; the pod starts when {then}"
