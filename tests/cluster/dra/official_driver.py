"""The official DRA test driver of Kubernetes: devices that are variables, by CDI files."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from tests.cluster.binaries import BUILD
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.cluster.control_plane import ControlPlane
from tests.cluster.go_program import GoProgram, find_kubernetes_program

CDI_DIR: Final = Path("/var/run/cdi")
"""Where containerd looks by default."""
_NAME: Final = "dra-test-driver"
_HEALTH: Final = "dra-health-driver"


class DriverNode(Protocol):
    """A node beside which the driver runs: ours, or the kubelet's."""

    @property
    def name(self) -> str:
        """The Node's."""
        ...

    @property
    def root_dir(self) -> Path:
        """--root-dir."""
        ...

    @property
    def directory(self) -> Path:
        """The test's own folder."""
        ...

    @property
    def plane(self) -> ControlPlane:
        """Its cluster."""
        ...


def find_driver() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    return find_kubernetes_program(_NAME, "test/e2e/dra/test-driver", _NAME)


def find_health_driver() -> Path:
    """Return the same driver in a program of ours, which takes the health of its devices from its standard input; raises NoBinaries."""
    module, source = BUILD.parent, Path(__file__).parent / "health_driver" / "main.go"
    kept = BuildCache(cache_root(), _HEALTH, digest((module / "go.mod", module / "go.sum", source)))
    return GoProgram(kept, _HEALTH, module, ("build",), str(source), nice=15).find()


@contextlib.contextmanager
def official_driver(node: DriverNode, name: str, *program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run it beside a node; its CDI files are removed at the end. `program`: another one than its own, with its first words."""
    command = [
        *(program or (str(find_driver()), "kubelet-plugin")),
        *(
            "--kubeconfig",
            str(node.plane.admin_kubeconfig),
            "--drivername",
            name,
            "--node-name",
            node.name,
            "--cdi-dir",
            str(CDI_DIR),
        ),
        *("--plugin-registration-path", str(node.root_dir / "plugins_registry")),
        *("--datadir", str(node.root_dir / "plugins")),
    ]
    had_folder = CDI_DIR.exists()
    CDI_DIR.mkdir(mode=0o750, parents=True, exist_ok=True)  # which the driver does only in its own program
    (node.root_dir / "plugins" / name).mkdir(parents=True, exist_ok=True)  # which the driver does not make
    (node.root_dir / "plugins_registry").mkdir(mode=0o750, exist_ok=True)
    with (node.directory / "driver.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        if process.stdin:
            process.stdin.close()
        remove_cdi_files(name)
        if not had_folder:
            with contextlib.suppress(OSError):
                CDI_DIR.rmdir()


def cdi_files(name: str) -> list[Path]:
    """List the CDI files of a driver."""
    return [*CDI_DIR.glob(f"{name}-*")]


def remove_cdi_files(name: str) -> None:
    """Remove what a driver that was killed has left."""
    for one in cdi_files(name):
        one.unlink(missing_ok=True)
