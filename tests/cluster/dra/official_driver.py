"""The official DRA test driver of Kubernetes: devices that are variables, by CDI files."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.cluster_node import ClusterNode
from tests.cluster.go_program import find_kubernetes_program

CDI_DIR: Final = Path("/var/run/cdi")
"""Where containerd looks by default."""
_NAME: Final = "dra-test-driver"


def find_driver() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    return find_kubernetes_program(_NAME, "test/e2e/dra/test-driver", _NAME)


@contextlib.contextmanager
def official_driver(node: ClusterNode, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run it beside a node; its CDI files are removed at the end."""
    command = [
        *(str(find_driver()), "kubelet-plugin", "--kubeconfig", str(node.plane.admin_kubeconfig)),
        *("--drivername", name, "--node-name", node.name, "--cdi-dir", str(CDI_DIR)),
        *("--plugin-registration-path", str(node.root_dir / "plugins_registry")),
        *("--datadir", str(node.root_dir / "plugins")),
    ]
    had_folder = CDI_DIR.exists()
    (node.root_dir / "plugins" / name).mkdir(parents=True, exist_ok=True)  # which the driver does not make
    node.until((node.root_dir / "plugins_registry").exists, "the plugins' folder")
    with (node.directory / "driver.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        for one in cdi_files(name):
            one.unlink(missing_ok=True)
        if not had_folder:
            with contextlib.suppress(OSError):
                CDI_DIR.rmdir()


def cdi_files(name: str) -> list[Path]:
    """List the CDI files of a driver."""
    return [*CDI_DIR.glob(f"{name}-*")]
