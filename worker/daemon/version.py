"""Which tempolet this is, where it says so: the node's kubeletVersion and `tempolet version`."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

CHECKOUT: Final = "checkout"


def own_version() -> str:
    """Give the installed version; `checkout` where tempolet runs from one."""
    try:
        return version("tempolet")
    except PackageNotFoundError:
        return CHECKOUT
