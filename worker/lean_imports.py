"""Keep libraries out of processes that run for months where only another library asks for them.

Called by `serve` before it imports the worker or the poller. Each saving is measured, and tests/worker/test_cli.py holds it.
"""

import contextlib
import importlib.util
import sys
import types
from collections.abc import Iterator


@contextlib.contextmanager
def without_rich() -> Iterator[None]:
    """Let an import inside the block find no rich; afterwards it can be imported again.

    structlog imports rich wherever it is installed, to colour tracebacks that we never print: 5 MB a process.
    """
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python marks a module that shall not be found
    try:
        yield
    finally:
        del sys.modules["rich"]


def bare_kubernetes() -> None:
    """Make the package kubernetes without running its own code, which imports all of its parts.

    We want its models only; kubeconfig, dynamic client, streams and what they need (requests, oauthlib, websocket) cost
    13 MB. Every part can still be imported by its own name.
    """
    if "kubernetes" in sys.modules:
        return
    spec = importlib.util.find_spec("kubernetes")
    if spec is None or spec.submodule_search_locations is None:
        return  # it is not installed, and the import that needs it will say so
    package = types.ModuleType(spec.name, "The package of Kubernetes' models, without what its __init__ imports.")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    package.__file__ = spec.origin
    sys.modules[spec.name] = package
