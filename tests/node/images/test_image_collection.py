"""Does a node remove unused images when its disk is full or they are too old, and keep all others?"""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.node_images import read_node_images
from tests.killed_sessions import remove_leftovers
from tests.node.images.pull_nodes import served
from tests.node.images.registry import Registry
from tests.node.recordings.recorded_node import EVERY_SECOND, FULL, NEVER_FULL, configure, news, until_told
from tests.node.tempolet_node import BUSYBOX, TempoletNode, pod_manifest, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import PAUSE_IMAGE, ContainerdPlaces
from worker.standalone.machine import programs
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.temporal_server import TemporalServer

BUSYBOXES = {BUSYBOX, BUSYBOX.replace("1.37", "latest")}


@pytest.fixture
def own(slot: int, node_dir: Path) -> Iterator[Containerd]:
    """Start a containerd for this test: its images will be removed."""
    places = ContainerdPlaces(node_dir / "gc", node_dir / "gc-run")
    daemon = Containerd(places, PodNetwork(f"tplgc{slot}", f"10.217.{slot}.0/24"), cgroup=f"/tempolet-gc-{slot}")
    remove_leftovers(daemon)
    with daemon:
        for archive in sorted((daemon.parts_dir / "images").glob("*.tar")):
            daemon.import_image(archive)
        yield daemon
    shutil.rmtree(places.root)  # its images; another file of this session begins with none


@pytest.fixture
def registry(own: Containerd) -> Iterator[Registry]:
    """Serve an image that no other test uses."""
    with served(own, label="collected") as made:
        yield made


def images(daemon: Containerd) -> set[str]:
    """Return the names of containerd's images, without digests."""
    ctr = [str(programs.find_program(programs.CTR)), "--address", str(daemon.socket), "--namespace", "k8s.io"]
    listed = subprocess.run([*ctr, "images", "list", "--quiet"], capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split() if "@" not in name and not name.startswith("sha256:")}


def records(node: TempoletNode) -> list[Path]:
    """Return the names of the pull records."""
    return list((node.root_dir / "image_manager" / "pulled").iterdir())


def test_a_full_disk_loses_what_nobody_uses_and_nothing_else(
    tmp_path: Path, own: Containerd, temporal: TemporalServer, registry: Registry
) -> None:
    """The prepulled image is removed; those of a running pod and a dead container and the pinned pause image stay; each removal has a reason.

    The worker is killed in between: the next one continues.
    """
    wanted = f"{registry.host}/wanted:1"
    keys = {"images": {"prepull": [wanted], **EVERY_SECOND}}
    with tempolet_node(tmp_path, own, temporal, keys=NEVER_FULL, own_keys=keys) as node:
        node.apply(pod_manifest("user"))
        node.until_running("user")
        node.until(lambda: wanted in images(own), "prepulled")
        until_told(node, f"{wanted} prepulled")
        assert images(own) == {*BUSYBOXES, PAUSE_IMAGE, wanted}
        assert records(node)
        seen = node.until(
            lambda: (one := read_node_images(node.root_dir)) and one.images == 3 and one, "all three seen"
        )
        assert 0 < seen.used_percent < 100

        node.stop("worker", signal.SIGKILL)
        node.stop("poller")
        node.keys, node.own_keys = FULL, {"images": EVERY_SECOND}
        node.write_configuration()
        node.start("worker")
        node.start("poller")
        node.until(lambda: wanted not in images(own), "removed")
        until_told(node, "FreeDiskSpaceFailed")
        assert images(own) == {*BUSYBOXES, PAUSE_IMAGE}
        node.until(lambda: not records(node), "the record of its pull is removed")
        until_told(node, "removed: the disk is")
        told = [one for one in news(node) if one.startswith(wanted)]
        assert "from 1 % on room is made; no container has used it in the" in told[-1]

        node.remove_all()
        node.until(lambda: not BUSYBOXES & images(own), "removed when its pods were gone")
        assert PAUSE_IMAGE in images(own)


def test_an_image_that_a_container_has_as_a_volume_is_in_use(
    tmp_path: Path, own: Containerd, temporal: TemporalServer, registry: Registry
) -> None:
    """No container runs it, and it stays until its pod is gone."""
    mounted = f"{registry.host}/mounted:1"
    manifest = pod_manifest("reader")
    manifest["spec"]["volumes"] = [{"name": "files", "image": {"reference": mounted, "pullPolicy": "IfNotPresent"}}]
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "files", "mountPath": "/files"}]
    with tempolet_node(tmp_path, own, temporal, keys=NEVER_FULL) as node:
        node.apply(manifest)
        node.until_running("reader")
        configure(node, FULL, EVERY_SECOND)
        until_told(node, "3 in use or pinned")
        assert images(own) >= {BUSYBOX, PAUSE_IMAGE, mounted}
        node.remove_all()
        node.until(lambda: mounted not in images(own), "removed when its pod was gone")


def test_an_image_unused_for_too_long_goes_though_there_is_room(
    tmp_path: Path, own: Containerd, temporal: TemporalServer
) -> None:
    """It is not pulled again; an image in use never gets too old."""
    old = NEVER_FULL | {"imageMinimumGCAge": "1ms", "imageMaximumGCAge": "2s"}
    with tempolet_node(tmp_path, own, temporal, keys=old, own_keys={"images": EVERY_SECOND}) as node:
        node.apply(pod_manifest("user"))
        node.until_running("user")
        node.remove_all()
        node.until(lambda: BUSYBOX not in images(own), "too old")
        until_told(node, "longer than imageMaximumGCAge")
        assert PAUSE_IMAGE in images(own)
