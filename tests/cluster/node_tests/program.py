"""The official node tests as a program: test/e2e_node of Kubernetes, unchanged, built once for all checkouts on the machine.

It has a cache of its own: it changes with what `tests/cluster/conformance/go.mod` pins, and nothing else does.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.cluster.binaries import BUILD, NoBinaries, find_go
from tests.cluster.build_cache import BuildCache, cache_root, digest

NAME: Final = "e2e_node.test"
PACKAGE: Final = "k8s.io/kubernetes/test/e2e_node"
MODULE: Final = BUILD.parent
VERSION: Final = "v1.36.3"
FLAGS: Final = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION} -X k8s.io/component-base/version.gitMajor=1 "
)
FLAGS_MORE: Final = "-X k8s.io/component-base/version.gitMinor=36 -X k8s.io/component-base/version.gitTreeState=clean"
"""Those of conformance/build.sh, so that compiled packages are shared."""


def find_node_tests() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    cache = BuildCache(cache_root(), "node-tests", digest((MODULE / "go.mod", MODULE / "go.sum"), FLAGS + FLAGS_MORE))
    if cache.lacking((NAME,)):
        go = find_go()
        if go is None:
            raise NoBinaries(f"no {NAME} in {cache.folder}: install Go >= 1.26, which builds it once")
        with cache.building() as fresh:
            if cache.lacking((NAME,)):
                _build(go, fresh / NAME)
    return cache.folder / NAME


def _build(go: str, program: Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath", "GOWORK": "off"}
    command = [
        "nice",
        "-n",
        "15",
        go,
        "test",
        "-c",
        "-vet=off",
        f"-ldflags={FLAGS + FLAGS_MORE}",
        "-o",
        str(program),
        PACKAGE,
    ]
    done = subprocess.run(
        command, cwd=MODULE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise NoBinaries(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
