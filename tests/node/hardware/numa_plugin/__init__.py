"""A device plugin by the kubelet's own stub, whose devices have NUMA nodes and which asks for every call: the official sample has neither."""

import contextlib
import subprocess
from collections.abc import Iterator
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


@contextlib.contextmanager
def numa_plugin(log: Path, *arguments: str) -> Iterator[None]:
    """Run it; raises NoBinaries."""
    with log.open("ab") as written:
        process = subprocess.Popen([find_numa_plugin(), *arguments], stdout=written, stderr=written)
    try:
        yield
    finally:
        process.kill()
        process.wait()
