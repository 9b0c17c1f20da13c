"""Keep libraries out of processes that run for months where only another library asks for them.

Called by `serve` before it imports the worker or the poller. Each saving is measured, and tests/worker/commands/test_cli.py holds it.
"""

import contextlib
import importlib
import importlib.util
import ssl
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Final

UNASKED: Final = frozenset({"temporalio.api.cloud.cloudservice.v1", "multiprocessing.managers"})
"""What Temporal's SDK imports for others: the messages of Temporal Cloud's administration, activities in other processes."""


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Let an import inside the block not find a library that it could do without; afterwards it can be imported again."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how Python marks a module that shall not be found
    try:
        yield
    finally:
        del sys.modules[name]


def bare_temporalio() -> None:
    """Import Temporal's client without what the SDK holds ready for others: 2 MB, and one more with its worker.

    The SDK speaks through its own core, but makes stubs of every service for grpc wherever that is installed. What is
    `UNASKED` comes when somebody asks for it, now and later.
    """
    if "temporalio" in sys.modules:
        return
    sys.meta_path.insert(0, _Lazily())
    with without("grpc"):
        importlib.import_module("temporalio.client")


class _Lazily(MetaPathFinder):
    """Finds the modules of `UNASKED` so that their code runs when something of them is asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in UNASKED else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


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


def bare_aiohttp() -> None:
    """Import aiohttp without the system's authorities, which it reads for whoever gives no TLS context of his own: 2.5 MB.

    Ours is always given; one that is not trusts nobody.
    """
    if "aiohttp" in sys.modules:
        return
    whole = ssl.create_default_context
    ssl.create_default_context = _trusting_nobody  # type: ignore[assignment]  # called without arguments by aiohttp
    try:
        importlib.import_module("aiohttp")
    finally:
        ssl.create_default_context = whole


def _trusting_nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
