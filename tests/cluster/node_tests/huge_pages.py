"""Huge pages on the machine of the node tests: the cgroups that limit them, where this machine has mounted none, and how many there are.

HugePages and its like read limits below /sys/fs/cgroup/hugetlb, and set the huge pages of the whole kernel. cgroup v1 makes a hierarchy outside of
cgroup namespaces only. It stays mounted out here for no longer than it takes to enter or leave it: every runtime that sees it puts its containers there.
While the hierarchy exists, a containerd out here, which finds no mount of it, answers no stats of containers. So a run has to ask for it.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.waiting import wait_until

CONTROLLER: Final = "hugetlb"
NUMBERS: Final = "hugepages/hugepages-*/nr_hugepages"
PLACES: Final = ("kernel/mm", "devices/system/node/node*")
"""Of all memory, and of each NUMA node: the suites write to either."""
GIVEN: Final = "mount --rbind /run/cgroups /sys/fs/cgroup\n"
OWN: Final = """
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
for at in /run/cgroups/*; do
  own="/sys/fs/cgroup/${{at##*/}}"
  if [ -L "$at" ]; then cp -d "$at" "$own"; elif mountpoint -q "$at"; then mkdir "$own"; mount --rbind "$at" "$own"; fi
done
mkdir /sys/fs/cgroup/{controller}
mount --move {hierarchy} /sys/fs/cgroup/{controller}
mount -o remount,bind,ro /sys/fs/cgroup
"""
"""What the machine's first process does instead: the folder of the mounts is this machine's, and has no place for one more."""


class HugePageCgroups:
    """The hierarchy of one machine."""

    def __init__(self, folder: Path, *, wanted: bool) -> None:
        """Take where it is mounted while it is entered or left."""
        self._at = folder / CONTROLLER
        self._missing = wanted and _is_missing()

    @property
    def prepared(self) -> str:
        """What brings all hierarchies from /run/cgroups to /sys/fs/cgroup."""
        return OWN.format(controller=CONTROLLER, hierarchy=self._at) if self._missing else GIVEN

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Mount it out here, if it is missing, while the block runs."""
        if not self._missing:
            yield
            return
        self._at.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "cgroup", "-o", CONTROLLER, CONTROLLER, self._at], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", self._at], check=True)

    def remove(self) -> None:
        """End the hierarchy. The kernel keeps it if a cgroup in it was still dying when it was unmounted last."""
        if self._missing:
            wait_until(self._is_gone, f"the hierarchy of {CONTROLLER} to end", looks=(0.1, 1.0))

    def _is_gone(self) -> bool:
        if not is_unused():
            with self.mounted():
                for folder, _, _ in os.walk(self._at, topdown=False):  # a runtime out here may have seen it
                    with contextlib.suppress(OSError):
                        Path(folder).rmdir()
        return is_unused()


def _is_missing() -> bool:
    """Report whether the kernel has the controller, of cgroup v1, and nobody has mounted it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    kinds = {fields[2] for fields in mounts}
    return is_unused() and "cgroup" in kinds


def is_unused() -> bool:
    """Report whether the kernel has the controller in no hierarchy of cgroup v1."""
    controllers = [line.split() for line in Path("/proc/cgroups").read_text().splitlines()]
    return any(fields[0] == CONTROLLER and fields[1] == "0" for fields in controllers)


@contextlib.contextmanager
def huge_pages_kept() -> Iterator[None]:
    """Have as many huge pages after the block as before; they are the whole kernel's."""
    before = {file: file.read_text() for place in PLACES for file in sorted(Path("/sys").glob(f"{place}/{NUMBERS}"))}
    try:
        yield
    finally:
        for file, number in before.items():
            if file.read_text() != number:
                file.write_text(number)
