"""What does the layout of the file systems change?"""

import pytest

from proto.temporal.eviction.thresholds import Disks, Signal, Threshold
from tests.workflows.decide.eviction.pressed_pods import threshold
from workflows.decide.eviction.disks import Files, Reclaim, files_counted, reclaims, with_container_fs

SHARED, IMAGE_FS, SPLIT = Disks(), Disks(image_fs=True), Disks(image_fs=True, container_fs=True)
BOTH = (Reclaim.DEAD_CONTAINERS, Reclaim.UNUSED_IMAGES)
ALL = frozenset(Files)


@pytest.mark.parametrize(
    ("disks", "signal", "removed", "counted"),
    [
        pytest.param(SHARED, Signal.NODE_FS, BOTH, ALL, id="one-device"),
        pytest.param(SHARED, Signal.IMAGE_FS_INODES, BOTH, ALL, id="one-device-imagefs"),
        pytest.param(SHARED, Signal.CONTAINER_FS, BOTH, ALL, id="one-device-containerfs"),
        pytest.param(IMAGE_FS, Signal.NODE_FS, (), {Files.LOGS, Files.VOLUMES}, id="nodefs-beside-an-imagefs"),
        pytest.param(IMAGE_FS, Signal.NODE_FS_INODES, (), {Files.LOGS, Files.VOLUMES}, id="its-inodes"),
        pytest.param(IMAGE_FS, Signal.IMAGE_FS, BOTH, {Files.ROOT}, id="imagefs"),
        pytest.param(IMAGE_FS, Signal.CONTAINER_FS_INODES, BOTH, {Files.ROOT}, id="containerfs-on-imagefs"),
        pytest.param(SPLIT, Signal.NODE_FS, (Reclaim.DEAD_CONTAINERS,), ALL, id="nodefs-with-the-writable-layers"),
        pytest.param(SPLIT, Signal.CONTAINER_FS, (Reclaim.DEAD_CONTAINERS,), ALL, id="containerfs-on-nodefs"),
        pytest.param(SPLIT, Signal.IMAGE_FS_INODES, (Reclaim.UNUSED_IMAGES,), set(), id="imagefs-with-images-alone"),
        pytest.param(SHARED, Signal.MEMORY, (), ALL, id="memory-is-not-reclaimed"),
        pytest.param(IMAGE_FS, Signal.ALLOCATABLE_MEMORY, (), {Files.ROOT}, id="nor-the-pods-memory"),
        pytest.param(SPLIT, Signal.PIDS, (), ALL, id="nor-process-ids"),
    ],
)
def test_what_is_reclaimed_and_counted(
    disks: Disks, signal: Signal, removed: tuple[Reclaim, ...], counted: frozenset[Files]
) -> None:
    """As buildSignalToNodeReclaimFuncs and buildSignalToRankFunc."""
    assert reclaims(signal, disks) == removed
    assert files_counted(signal, disks) == counted


NODE = [threshold(Signal.NODE_FS, "10%", reclaim="1Gi"), threshold(Signal.NODE_FS_INODES, "5%", 30)]
IMAGE = [threshold(Signal.IMAGE_FS, "15%"), threshold(Signal.IMAGE_FS, "20%", 60)]
OWN = threshold(Signal.CONTAINER_FS, "50%")
OF_NODE = [threshold(Signal.CONTAINER_FS, "10%", reclaim="1Gi"), threshold(Signal.CONTAINER_FS_INODES, "5%", 30)]
OF_IMAGE = [threshold(Signal.CONTAINER_FS, "15%"), threshold(Signal.CONTAINER_FS, "20%", 60)]


@pytest.mark.parametrize(
    ("disks", "given", "added"),
    [
        pytest.param(SHARED, [*NODE, *IMAGE], OF_NODE, id="on-the-one-device"),
        pytest.param(SPLIT, [*NODE, *IMAGE], OF_NODE, id="on-nodefs"),
        pytest.param(IMAGE_FS, [*NODE, *IMAGE], OF_IMAGE, id="on-imagefs"),
        pytest.param(IMAGE_FS, NODE, [], id="imagefs-has-none"),
        pytest.param(SHARED, [*NODE, OWN], OF_NODE, id="its-own-are-replaced"),
        pytest.param(SPLIT, [OWN, *NODE, OWN], [*OF_NODE], id="the-last-of-two-hard-ones-is-replaced"),
        pytest.param(Disks(container_fs=True), [*NODE, OWN], [OWN], id="no-such-layout"),
    ],
)
def test_thresholds_of_containerfs(disks: Disks, given: list[Threshold], added: list[Threshold]) -> None:
    """As UpdateContainerFsThresholds."""
    kept = [one for one in given if one is not OWN]
    first = given[:1] if given.count(OWN) > 1 else []
    assert list(with_container_fs(given, disks)) == [*first, *kept, *added]
