"""The folders of sysfs that stand for a CPU or a NUMA node each."""

from pathlib import Path


def numbered_folders(folder: Path, prefix: str) -> dict[int, Path]:
    """Find them by their number: `node0`, `node1` and so on for the prefix `node`."""
    paths = folder.glob(f"{prefix}[0-9]*")
    return {int(number): path for path in sorted(paths) if (number := path.name.removeprefix(prefix)).isdecimal()}
