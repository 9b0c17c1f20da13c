"""Where the programs of a real cluster are: the control plane's, kubectl and etcd.

Asked by everything below tests/cluster that starts one. `$TEMPOLET_KUBE_BIN` names a folder with them; else they are in
.build/kube, built there once by conformance/build.sh with Go (about 7 minutes on 2 cores). etcd is Debian's, fetched by `make parts`
for tests.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from worker.standalone.machine.programs import default_parts_dir, search_path

VARIABLE: Final = "TEMPOLET_KUBE_BIN"
BUILD: Final = Path(__file__).parent / "conformance" / "build.sh"
BUILT: Final = Path(__file__).parents[2] / ".build" / "kube"
CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
OFFICIAL_TESTS: Final = ("agnhost", "nonewprivs", "ginkgo", "e2e.test")
KUBELET: Final = ("kubelet",)
"""What ours is held against."""
GO_AT: Final = ("/usr/local/go/bin", "/usr/lib/go-1.26/bin")
"""Where a Go lies that is not on PATH."""


class NoBinaries(Exception):
    """A program of the cluster is not here and can't be built; says why and how to get it."""


def find_binaries(names: Sequence[str] = CONTROL_PLANE, *, build: bool = True) -> Path:
    """Find the folder that has all of these programs; builds what is missing where there is Go.

    Raises NoBinaries. Two sessions that build at once do it one after the other.
    """
    if chosen := os.environ.get(VARIABLE):
        if lacking := _lacking(Path(chosen), names):
            raise NoBinaries(f"{VARIABLE} names {chosen}, which has no {', '.join(lacking)}")
        return Path(chosen)
    if not _lacking(BUILT, names):
        return BUILT
    go = _go()
    if not build or go is None:
        raise NoBinaries(
            f"no {', '.join(_lacking(BUILT, names))} in {BUILT}: set {VARIABLE} to a folder that has them, "
            "or install Go >= 1.26, which builds them once"
        )
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if lacking := _lacking(BUILT, names):
            _build(Path(go), lacking)
    return BUILT


def can_be_had(names: Sequence[str] = CONTROL_PLANE) -> str:
    """Say why these programs can't be had, neither found nor built; empty when they can."""
    try:
        find_binaries(names, build=False)
    except NoBinaries as error:
        return "" if VARIABLE not in os.environ and _go() else str(error)
    return ""


def find_etcd() -> Path:
    """Find etcd: PATH, then the parts. Raises NoBinaries."""
    found = shutil.which("etcd", path=search_path())
    candidates = [Path(found)] if found else []
    candidates.append(default_parts_dir() / "root/usr/bin/etcd")
    for path in candidates:
        if os.access(path, os.X_OK):
            return path
    raise NoBinaries("no etcd on PATH or among the parts: `python3 -m deploy.parts.fetch --for-tests` fetches Debian's")


def _go() -> str | None:
    return shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *GO_AT]))


def _lacking(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def _build(go: Path, names: Sequence[str]) -> None:
    environment = {**os.environ, "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    done = subprocess.run(
        [BUILD, BUILT, *names],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoBinaries(f"{BUILD} {' '.join(names)} failed:\n{done.stdout[-2000:]}")
