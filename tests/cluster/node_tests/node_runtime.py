"""What the node needs on its machine, started as one unit: containerd, a registry with the tests' images, and for our node Temporal.

Run inside by `node_tests_run`: `python -m tests.cluster.node_tests.node_runtime IMAGES PROGRAMS [temporal]`. Its processes go on when it has
ended. The unit's name does not contain "kubelet": the tests signal every unit whose name does.
"""

import sys
from pathlib import Path
from typing import Final

from tests.cluster.conformance.official_images import OFFICIAL, OfficialImages
from tests.cluster.node_tests.pulled_images import give_pulled_images
from tests.node.images.debian_registry import DebianRegistry
from worker.standalone.containerd_config import PAUSE_IMAGE
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.settings import Settings

SETTINGS: Final = Settings(
    state_dir=Path("/var/lib/node"),
    run_dir=Path("/run/node"),
    network=PodNetwork("nodetests0", "10.212.252.0/22"),
    cgroup="/node-runtime",
)
"""The paths are the machine's own."""
UNIT: Final = "node-runtime"


def main() -> None:
    """Start all of it, and end when it serves."""
    images, programs, *more = sys.argv[1:]
    SETTINGS.keep()
    SETTINGS.containerd.start()
    archives = SETTINGS.parts_dir / "images"
    for archive in sorted(archives.glob("*.tar")):
        SETTINGS.containerd.import_image(archive)
    registry = DebianRegistry(SETTINGS.state_dir / "registry").__enter__()  # lives as long as the unit
    OfficialImages(Path(images), Path(programs)).give(SETTINGS.containerd, registry)
    give_pulled_images(SETTINGS.state_dir / "images", SETTINGS.containerd, registry)
    repository, _, tag = PAUSE_IMAGE.removeprefix(f"{OFFICIAL}/").partition(":")
    registry.push(archives / "pause.tar", repository, tag)
    if "temporal" in more:
        SETTINGS.temporal.start()


if __name__ == "__main__":
    main()
