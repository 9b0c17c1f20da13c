"""A Go program of the tests, built once for all checkouts on the machine."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.binaries import BUILD, NoBinaries, find_go, run_build
from tests.cluster.build_cache import BuildCache, cache_root, digest


@dataclass(frozen=True, slots=True)
class GoProgram:
    """What is built, and where it is kept."""

    cache: BuildCache
    name: str
    module: Path
    """The folder in which Go runs."""
    words: Sequence[str]
    """Those of `go` but `-o`; its flags are those of conformance/build.sh, so that compiled packages are shared."""
    package: str = "."
    nice: int = 10

    def find(self) -> Path:
        """Return the program, which is built first if it is missing; raises NoBinaries."""
        if self.cache.lacking((self.name,)):
            go = find_go()
            if go is None:
                raise NoBinaries(f"no {self.name} in {self.cache.folder}: install Go >= 1.26, which builds it once")
            with self.cache.building() as fresh:
                if self.cache.lacking((self.name,)):
                    self._build(go, fresh / self.name)
        return self.cache.folder / self.name

    def _build(self, go: str, program: Path) -> None:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath", "GOWORK": "off"}
        command = ["nice", "-n", str(self.nice), go, *self.words, "-o", str(program), self.package]
        run_build(command, environment, self.module)


def find_kubernetes_program(name: str, package: str, cache: str) -> Path:
    """Return a program of the Kubernetes module that the conformance module pins; `cache` names its folder. Raises NoBinaries."""
    module = BUILD.parent
    kept = BuildCache(cache_root(), cache, digest((module / "go.mod", module / "go.sum")))
    return GoProgram(kept, name, module, ("build",), f"k8s.io/kubernetes/{package}", nice=15).find()
