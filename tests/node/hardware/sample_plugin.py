"""The official sample-device-plugin of Kubernetes: two devices of `example.com/resource`, with a file for each.

It knows only `/var/lib/kubelet/device-plugins`, so it runs in a mount namespace in which the node's own folder is there.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.go_program import find_kubernetes_program
from tests.node.tempolet_node import TempoletNode

RESOURCE: Final = "example.com/resource"
DEVICES: Final = ("Dev-1", "Dev-2")
FILES: Final = tuple(Path("/tmp", one) for one in DEVICES)
_NAME: Final = "sample-device-plugin"
_FOLDER: Final = "/var/lib/kubelet/device-plugins"
_SCRIPT: Final = (
    'mount -t tmpfs none /var/lib && mkdir -p "$1" && mount --bind "$2" "$1" && PLUGIN_SOCK_DIR="$1" exec "$3"'
)


def find_plugin() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    return find_kubernetes_program(_NAME, f"test/images/{_NAME}", "sample-plugin")


@contextlib.contextmanager
def sample_plugin(node: TempoletNode) -> Iterator[subprocess.Popen[bytes]]:
    """Run it beside a node, whose registration must be open; its devices' files are removed at the end."""
    program, folder = find_plugin(), node.root_dir / "device-plugins"
    node.until((folder / "kubelet.sock").exists, "the registration is open")
    command = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", _FOLDER, str(folder), str(program)]
    with (node.directory / "plugin.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for one in FILES:
            one.unlink(missing_ok=True)
