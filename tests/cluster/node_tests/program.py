"""The official node tests as a program: test/e2e_node of Kubernetes, unchanged.

It has a cache of its own: it changes with what `tests/cluster/conformance/go.mod` pins, and nothing else does.
"""

from pathlib import Path
from typing import Final

from tests.cluster.binaries import BUILD
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.cluster.go_program import GoProgram

NAME: Final = "e2e_node.test"
PACKAGE: Final = "k8s.io/kubernetes/test/e2e_node"
MODULE: Final = BUILD.parent
VERSION: Final = "v1.36.3"
FLAGS: Final = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION} -X k8s.io/component-base/version.gitMajor=1 "
    "-X k8s.io/component-base/version.gitMinor=36 -X k8s.io/component-base/version.gitTreeState=clean"
)


def find_node_tests() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    cache = BuildCache(cache_root(), "node-tests", digest((MODULE / "go.mod", MODULE / "go.sum"), FLAGS))
    return GoProgram(cache, NAME, MODULE, ("test", "-c", "-vet=off", f"-ldflags={FLAGS}"), PACKAGE, nice=15).find()
