"""Where the programs of a real cluster are: the control plane, kubectl and etcd.

Used by everything below tests/cluster that starts one. `$TEMPOLET_KUBE_BIN` names a folder with them; otherwise they are built with
Go by conformance/build.sh (about 7 minutes on 2 cores), once for all checkouts on the machine (`build_cache`). etcd is Debian's,
fetched by `make parts` for tests.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.cluster.build_cache import BuildCache, cache_root, digest
from worker.standalone.machine.programs import default_parts_dir, search_path

VARIABLE: Final = "TEMPOLET_KUBE_BIN"
BUILD: Final = Path(__file__).parent / "conformance" / "build.sh"
SOURCES: Final = frozenset({".sh", ".mod", ".sum", ".go"})
"""Suffixes of the files beside it that the programs are built from."""
CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
OFFICIAL_TESTS: Final = ("agnhost", "nonewprivs", "ginkgo", "e2e.test")
KUBELET: Final = ("kubelet",)
"""The real kubelet, which ours is compared with."""
GO_AT: Final = ("/usr/local/go/bin", "/usr/lib/go-1.26/bin")
"""Where to look for a Go that is not on PATH."""


class NoBinaries(Exception):
    """A program of the cluster is missing and can't be built; says why and how to get it."""


def find_binaries(names: Sequence[str] = CONTROL_PLANE, *, build: bool = True) -> Path:
    """Find the folder that has all of these programs; builds missing ones if there is Go.

    Raises NoBinaries. Of two sessions that build at once, one waits for the other.
    """
    if chosen := os.environ.get(VARIABLE):
        if lacking := _lacking(Path(chosen), names):
            raise NoBinaries(f"{VARIABLE} names {chosen}, which has no {', '.join(lacking)}")
        return Path(chosen)
    cache, go = build_cache(), find_go()
    if not (lacking := cache.lacking(names)):
        return cache.folder
    if not build or go is None:
        raise NoBinaries(
            f"no {', '.join(lacking)} in {cache.folder}: set {VARIABLE} to a folder that has them, "
            "or install Go >= 1.26, which builds them once"
        )
    with cache.building() as fresh:
        if lacking := cache.lacking(names):
            _build(Path(go), fresh, lacking)
    return cache.folder


@functools.cache
def build_cache() -> BuildCache:
    """Return the cache of this version's programs; its name contains the version of Go, if there is one."""
    sources = digest(path for path in BUILD.parent.rglob("*") if path.suffix in SOURCES)
    root, go = cache_root(), find_go()
    if go is None:
        built = sorted(root.glob(f"kube-{sources}-*"))
        return BuildCache(root, "kube", built[0].name.removeprefix("kube-") if built else sources)
    environment = {
        **os.environ,
        "GOTOOLCHAIN": "local",
    }  # go.mod may name a newer one, which asking for its version would download
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, env=environment)
    return BuildCache(root, "kube", f"{sources}-{version.stdout.strip()}")


def can_be_had(names: Sequence[str] = CONTROL_PLANE) -> str:
    """Return why these programs can be neither found nor built; empty if they can."""
    try:
        find_binaries(names, build=False)
    except NoBinaries as error:
        return "" if VARIABLE not in os.environ and find_go() else str(error)
    return ""


def no_control_plane() -> str:
    """Return why no control plane can run here; empty if one can, though its programs may have to be built first."""
    try:
        find_etcd()
    except NoBinaries as error:
        return str(error)
    return can_be_had()


def find_etcd() -> Path:
    """Find etcd: PATH, then the parts. Raises NoBinaries."""
    found = shutil.which("etcd", path=search_path())
    candidates = [Path(found)] if found else []
    candidates.append(default_parts_dir() / "root/usr/bin/etcd")
    for path in candidates:
        if os.access(path, os.X_OK):
            return path
    raise NoBinaries("no etcd on PATH or among the parts: `python3 -m deploy.setup --dev` fetches Debian's")


def find_go() -> str | None:
    """Return the path of Go, which may be installed without being on PATH."""
    return shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *GO_AT]))


def _lacking(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def _build(go: Path, folder: Path, names: Sequence[str]) -> None:
    environment = {**os.environ, "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    run_build(["nice", str(BUILD), str(folder), *names], environment)  # nice: other test sessions run meanwhile


def run_build(command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> None:
    """Run what builds a program; raises NoBinaries with the end of what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoBinaries(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
