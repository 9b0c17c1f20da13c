"""The CSI volumes of pods that nobody remembers, by the marks of `left_behind`."""

from collections.abc import Iterator
from pathlib import Path

from activities.volumes.csi.records.block_places import BlockPlace
from activities.volumes.csi.records.layout import MARK, devices_of, files_of
from activities.volumes.csi.records.places import FilesPlace, Place


def forsaken(root_dir: Path) -> Iterator[Place]:
    """List the volumes of every marked pod. Blocks on files."""
    for mark in sorted((root_dir / "pods").glob(f"*/{MARK}")):
        pod = mark.parents[1]
        yield from (FilesPlace(root_dir, pod.name, name) for name in files_of(pod))
        yield from (BlockPlace(root_dir, pod.name, name) for name in devices_of(pod))
