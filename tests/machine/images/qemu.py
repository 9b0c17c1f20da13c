"""Where QEMU is: the machine's own if it is new enough, else Debian's, unpacked into the cache and run from there.

Version 7.2, which Debian 12 has, crashes the guest, so the version decides, not PATH. An unpacked QEMU is started through its own
dynamic linker: it needs neither chroot nor mounts.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.debian import root as debian_root
from tests.cluster.build_cache import BuildCache, cache_root, digest
from worker.standalone.machine.programs import version_of

OLDEST: Final = (10,)
PACKAGES: Final = ("qemu-system-x86", "qemu-utils")
LIBRARIES: Final = "root/usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True, slots=True)
class Qemu:
    """How QEMU's programs are started."""

    system: tuple[str, ...]
    """The emulator, with where its firmware is."""
    image: tuple[str, ...]
    """`qemu-img`."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)


def find_qemu() -> Qemu:
    """Find QEMU 10 or newer, or unpack it into the cache; raises CannotBuild."""
    system, image = shutil.which("qemu-system-x86_64"), shutil.which("qemu-img")
    if system and image and version_of(Path(system)) >= OLDEST:
        return Qemu((system,), (image,))
    cache = BuildCache(cache_root() / "machine", "qemu", digest([Path(debian_root.__file__)], *PACKAGES))
    if cache.lacking(["root"]):
        with cache.building() as fresh:
            if cache.lacking(["root"]):
                debian_root.bootstrap(fresh / "root", PACKAGES, "extract")
    return _unpacked(cache.folder)


def _unpacked(folder: Path) -> Qemu:
    libraries, share = folder / LIBRARIES, folder / "root/usr/share"
    linker = (str(libraries / "ld-linux-x86-64.so.2"), "--library-path", str(libraries))
    firmware = ("-L", f"{share}/qemu", "-L", f"{share}/seabios")
    return Qemu(
        (*linker, f"{folder}/root/usr/bin/qemu-system-x86_64", *firmware),
        (*linker, f"{folder}/root/usr/bin/qemu-img"),
        {"QEMU_MODULE_DIR": str(libraries / "qemu")},
    )
