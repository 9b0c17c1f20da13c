"""Stand-ins for the images that the official node tests of image collection pull, all of them, before or after a test.

The list is the tests' own (test/e2e_node/image_list.go). Most are never run here, so one small image has all their names. It has many files:
ImageGCNoEviction fills the disk with 10,000 files too many, and only unused images may be removed for it. The sample device plugin is run: its
image has the official program.

One name is a digest, which no stand-in has. A registry cannot serve it; the runtime has an image of that name, pinned so that it stays.
"""

import subprocess
from pathlib import Path
from typing import Final

from tests.cluster.conformance.official_images import Tree, serve_as
from tests.node.hardware.sample_plugin import find_plugin
from tests.node.images.debian_registry import DebianRegistry
from worker.standalone.containerd import IMAGE_NAMESPACE, Containerd
from worker.standalone.images.oci import File, Folder, Image, archive
from worker.standalone.machine import programs

NAMES: Final = (
    "registry.k8s.io/e2e-test-images/node-perf/npb-ep:1.6.0",
    "registry.k8s.io/e2e-test-images/node-perf/npb-is:1.7.0",
    "registry.k8s.io/e2e-test-images/node-perf/pytorch-wide-deep:1.0.0",
    "registry.k8s.io/e2e-test-images/perl:5.26",
    "registry.k8s.io/e2e-test-images/volume/nfs:1.6.0",
    "registry.k8s.io/etcd:3.6.8-0",
    "registry.k8s.io/node-problem-detector/node-problem-detector:v1.34.0",
    "gcr.io/cadvisor/cadvisor:v0.47.2",
    "docker.io/nfvpe/sriov-device-plugin:v3.1",
)
BY_DIGEST: Final = (
    "registry.k8s.io/e2e-test-images/busybox@sha256:a9155b13325b2abef48e71de77bb8ac015412a566829f621d06bfae5c699b1b9"
)
DEVICE_PLUGIN: Final = "registry.k8s.io/e2e-test-images/sample-device-plugin:1.7"
PINNED: Final = "io.cri-containerd.pinned=pinned"
FILES: Final = 20_000


def give_pulled_images(folder: Path, containerd: Containerd, registry: DebianRegistry) -> None:
    """Serve the image of many files under all its names, and give the runtime the one that it cannot pull."""
    folder.mkdir(parents=True, exist_ok=True)
    many = folder / "many-files.tar"
    tree: Tree = {"files": Folder(), **{f"files/{number}": File(b"") for number in range(FILES)}}
    many.write_bytes(archive(Image(NAMES[:1], tree)))
    plugin = folder / "device-plugin.tar"
    program = File(find_plugin().read_bytes(), 0o755)
    settings = {"Entrypoint": ["/sampledeviceplugin", "-alsologtostderr"]}
    plugin.write_bytes(
        archive(Image((DEVICE_PLUGIN,), {"sampledeviceplugin": program, "tmp": Folder(0o1777)}, settings))
    )
    for name, image in [*((name, many) for name in NAMES), (DEVICE_PLUGIN, plugin)]:
        host, _, rest = name.partition("/")
        registry.push(image, *rest.split(":"))
        serve_as(host, containerd, registry)
    pinned = folder / "pinned.tar"
    pinned.write_bytes(archive(Image((BY_DIGEST,), {"pinned": File(b"")})))
    containerd.import_image(pinned)
    ctr = programs.find_program(programs.CTR, containerd.parts_dir)
    command: list[str | Path] = [
        ctr,
        "--address",
        containerd.socket,
        "--namespace",
        IMAGE_NAMESPACE,
        "images",
        "label",
        BY_DIGEST,
        PINNED,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
