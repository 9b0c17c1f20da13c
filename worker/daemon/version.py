"""The version of tempolet, for the node's kubeletVersion and `tempolet version`."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from worker.settings.kubelet.schema import load_schema

CHECKOUT: Final = "checkout"


def own_version() -> str:
    """Return the installed version; `checkout` if tempolet runs from one."""
    try:
        return version("tempolet")
    except PackageNotFoundError:
        return CHECKOUT


def kubelet_version() -> str:
    """Return what a Node object has as its kubeletVersion."""
    return f"v{load_schema().version.removeprefix('v')}+tempolet.{own_version()}"
