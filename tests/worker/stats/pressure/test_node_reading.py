"""What is measured of a node for its eviction signals?"""

from dataclasses import replace
from pathlib import Path

import pytest

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import memory_capacity
from proto.temporal.eviction.readings import MemoryReading, TaskReading
from proto.temporal.eviction.thresholds import Disks, Signal
from tests.worker.stats.cgroup_files import V1, V2, write_v1, write_v2
from worker.stats.cgroups.v1 import CgroupsV1
from worker.stats.cgroups.v2 import CgroupsV2
from worker.stats.disks.filesystems import FileSystem, file_system_of
from worker.stats.node_stats import reader_of
from worker.stats.pressure import node_reading
from worker.stats.pressure.node_reading import Places, measure_node
from workflows.decide.eviction.observations import observations

LIMITED = MemoryReading(available=67108864 - 1531904, working_set=1531904, usage=3805184)
"""Of the cgroup that the files show."""


def test_memory_of_the_unified_hierarchy(tmp_path: Path) -> None:
    """The root has no usage: anonymous and file memory, less inactive file memory."""
    root = {**V2, "memory.stat": "anon 300\nfile 200\ninactive_file 150\n"}
    reader = CgroupsV2(write_v2(write_v2(tmp_path / "cgroup", "/", root), "/kubepods"))
    found = measure_node(reader, Places(tmp_path, None, "/kubepods")).reading
    assert found.memory == MemoryReading(memory_capacity() - 350, 350, usage=500)
    assert found.pods_memory == LIMITED
    assert (found.image_fs, found.container_fs) == (None, None)


def test_memory_of_version_1(tmp_path: Path) -> None:
    """A cgroup without a limit may have the machine's memory, and never uses less than nothing."""
    unlimited = {
        "memory.usage_in_bytes": "500\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.stat": "inactive_file 1\ntotal_inactive_file 600\n",
    }
    roots = write_v1(tmp_path, "/", {**V1, "memory": {**V1["memory"], **unlimited}})
    found = measure_node(CgroupsV1(write_v1(tmp_path, "/kubepods") and roots), Places(tmp_path, None, "/kubepods"))
    assert found.reading.memory == MemoryReading(memory_capacity(), 0, usage=500)
    assert found.reading.pods_memory == LIMITED


def test_process_ids_are_bounded_by_the_smaller_of_two_limits(tmp_path: Path) -> None:
    """pid_max and threads-max; threads count, too."""
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "sys/kernel/pid_max").write_text("4000\n")
    (tmp_path / "sys/kernel/threads-max").write_text("3000\n")
    (tmp_path / "loadavg").write_text("1.36 3.49 4.53 2/700 3715089\n")
    found = measure_node(CgroupsV2(tmp_path), Places(tmp_path, None, "/kubepods"), tmp_path).reading
    assert found.tasks == TaskReading(700, 3000)
    assert (found.memory, found.pods_memory) == (None, None), "no cgroup can be read"


def test_this_machine_is_measured(tmp_path: Path) -> None:
    """Every signal, within its bounds; a missing folder is omitted."""
    reader, places = reader_of(Hierarchies.of_this_node()), Places(tmp_path, tmp_path, "/")
    found = observations(measure_node(reader, places).reading)
    assert found.keys() == set(Signal)
    assert all(0 <= one.available <= one.capacity for one in found.values())
    without = observations(measure_node(reader, replace(places, image_fs=tmp_path / "none")).reading)
    assert set(Signal) - without.keys() == {
        Signal.IMAGE_FS,
        Signal.IMAGE_FS_INODES,
        Signal.CONTAINER_FS,
        Signal.CONTAINER_FS_INODES,
    }


@pytest.mark.parametrize(
    ("image_device", "layer_device", "disks"),
    [
        pytest.param("8:1", None, Disks(), id="all-on-one"),
        pytest.param("8:2", None, Disks(image_fs=True), id="images-on-one-of-their-own"),
        pytest.param("8:2", "8:2", Disks(image_fs=True), id="layers-beside-them"),
        pytest.param("8:2", "8:1", Disks(image_fs=True, container_fs=True), id="layers-on-the-nodes"),
        pytest.param("8:1", "8:2", Disks(image_fs=True, container_fs=True), id="images-on-the-nodes"),
    ],
)
def test_which_disks_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_device: str, layer_device: str | None, disks: Disks
) -> None:
    """By the devices of the folders; each signal is read from its own."""
    images, layers = tmp_path / "images", tmp_path / "layers"
    images.mkdir()
    layers.mkdir()
    devices = {tmp_path: "8:1", images: image_device, layers: layer_device or image_device}
    free = {"8:1": 100, "8:2": 200}

    def found_on(path: Path) -> FileSystem:
        return file_system_of(path)._replace(device_id=devices[path], available=free[devices[path]])

    monkeypatch.setattr(node_reading, "file_system_of", found_on)
    places = Places(tmp_path, images, "/kubepods", container_fs=layers if layer_device else None)
    found = measure_node(CgroupsV2(tmp_path), places)
    assert found.disks == disks
    signals = observations(found.reading)
    asked = {Signal.IMAGE_FS: images, Signal.CONTAINER_FS: layers}
    assert {one: signals[one].available for one in asked} == {one: free[devices[place]] for one, place in asked.items()}


def test_a_file_system_that_counts_no_inodes_is_not_short_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As btrfs."""
    monkeypatch.setattr(
        node_reading, "file_system_of", lambda path: file_system_of(path)._replace(inodes=0, inodes_free=0)
    )
    found = observations(measure_node(CgroupsV2(tmp_path), Places(tmp_path, None, "/kubepods")).reading)
    assert Signal.NODE_FS in found
    assert Signal.NODE_FS_INODES not in found
