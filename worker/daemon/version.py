"""The version of tempolet, for the node's kubeletVersion and `tempolet version`."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

CHECKOUT: Final = "checkout"


def own_version() -> str:
    """Return the installed version; `checkout` if tempolet runs from one."""
    try:
        return version("tempolet")
    except PackageNotFoundError:
        return CHECKOUT
