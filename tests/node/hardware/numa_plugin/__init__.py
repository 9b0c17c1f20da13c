"""A device plugin by the kubelet's own stub, whose devices have NUMA nodes and which asks for every call: the official sample has neither."""

from pathlib import Path
from typing import Final

from tests.cluster.binaries import BUILD
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.cluster.go_program import GoProgram

NAME: Final = "numa-device-plugin"
RESOURCE: Final = "example.com/numa"
VARIABLE: Final = "DEVICES"
"""The container's variable with the names of its devices."""


def find_numa_plugin() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    module, source = BUILD.parent, Path(__file__).parent / "main.go"
    kept = BuildCache(cache_root(), NAME, digest((module / "go.mod", module / "go.sum", source)))
    return GoProgram(kept, NAME, module, ("build",), str(source), nice=15).find()
