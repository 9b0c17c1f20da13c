"""The official programs about CSI, which Go builds once for all checkouts: the sanity suite, and the mock of Kubernetes' own tests.

Each is a module of its own, because the mock is of an older version of CSI than the newest suite.
"""

from pathlib import Path
from typing import Final

from tests.cluster.binaries import find_go
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.cluster.go_program import GoProgram

FOLDER: Final = Path(__file__).parent
SANITY: Final = "csi-sanity"
MOCK: Final = "csi-mock"
_SOURCES: Final = frozenset({".go", ".mod", ".sum"})
_WORDS: Final = ("build",)


def find_sanity() -> Path:
    """Return the sanity suite; raises NoBinaries."""
    module = FOLDER / "sanity"
    package = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
    return GoProgram(_cache(SANITY, module), SANITY, module, _WORDS, package, nice=15).find()


def find_mock() -> Path:
    """Return the mock; raises NoBinaries."""
    module = FOLDER / "mock"
    return GoProgram(_cache(MOCK, module), MOCK, module, _WORDS, nice=15).find()


def why_not(name: str, module: str) -> str:
    """Return why there is no such program; empty if there is one, or Go to build it."""
    cache = _cache(name, FOLDER / module)
    if cache.lacking((name,)) and find_go() is None:
        return f"no {name} in {cache.folder}, and no Go to build it"
    return ""


def _cache(name: str, module: Path) -> BuildCache:
    return BuildCache(cache_root(), name, digest(one for one in module.iterdir() if one.suffix in _SOURCES))
