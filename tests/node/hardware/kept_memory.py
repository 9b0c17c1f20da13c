"""The services of a node whose machine keeps its memory: its NUMA nodes are read from the folder that the environment names.

A kernel may set up its memory only as it is needed; what a NUMA node has then grows, and a node with static memory does not start again, as
with the kubelet. So the test takes a copy (`copy_of_nodes`), and starts this module as a release.
"""

import os
from pathlib import Path
from typing import Final

from worker.settings.hardware import numa_nodes

VARIABLE: Final = "TEST_NUMA_NODES"


def copy_of_nodes(folder: Path) -> Path:
    """Copy what is read of the machine's NUMA nodes."""
    for node in numa_nodes.FOLDER.glob("node[0-9]*"):
        for file in (node / "meminfo", node / "distance", *node.glob("hugepages/*/nr_hugepages")):
            copy = folder / file.relative_to(numa_nodes.FOLDER)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(file.read_text())
    return folder


if __name__ == "__main__":
    numa_nodes.read_nodes.__defaults__ = (Path(os.environ[VARIABLE]),)
    from worker.cli import main

    main()
