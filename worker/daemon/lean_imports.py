"""Avoids imports of libraries that only another library requests, in processes that run for months.

Called by `serve` before it imports the worker or the poller. Each saving is measured, and checked by
tests/worker/commands/test_cli.py.
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
"""Modules that Temporal's SDK imports without need here: Temporal Cloud's administration, activities in subprocesses.
"""


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Hide an optional library from imports inside the block."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how Python marks a module as missing
    try:
        yield
    finally:
        del sys.modules[name]


def bare_temporalio() -> None:
    """Import Temporal's client without modules that are not used here: saves 2 MB, and one more with the worker.

    The SDK has its own gRPC core, but also creates stubs of every service if grpc is installed. The modules in
    `UNASKED` are loaded on first use.
    """
    if "temporalio" in sys.modules:
        return
    sys.meta_path.insert(0, _Lazily())
    with without("grpc"):
        importlib.import_module("temporalio.client")


class _Lazily(MetaPathFinder):
    """Finds the modules of `UNASKED`, to be executed on first use."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in UNASKED else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def bare_kubernetes() -> None:
    """Create the package kubernetes without running its `__init__`, which imports all its parts.

    Only its models are used here; kubeconfig, dynamic client, streams and their dependencies (requests, oauthlib,
    websocket) cost 13 MB. Every part can still be imported by name.
    """
    if "kubernetes" in sys.modules:
        return
    spec = importlib.util.find_spec("kubernetes")
    if spec is None or spec.submodule_search_locations is None:
        return  # it is not installed; the import that needs it will fail and say so
    package = types.ModuleType(spec.name, "The package of Kubernetes' models, without what its __init__ imports.")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    package.__file__ = spec.origin
    sys.modules[spec.name] = package


def bare_aiohttp() -> None:
    """Import aiohttp without loading the system's certificate authorities for its default TLS context: 2.5 MB.

    Every connection here has its own context; the default one would trust no certificate.
    """
    if "aiohttp" in sys.modules:
        return
    whole = ssl.create_default_context
    ssl.create_default_context = _empty_context  # type: ignore[assignment]  # called without arguments by aiohttp
    try:
        importlib.import_module("aiohttp")
    finally:
        ssl.create_default_context = whole


def _empty_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
