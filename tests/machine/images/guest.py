"""The guest: Debian 13 with systemd, its cloud kernel, container runtimes and tempolet's virtual environment, as an image of a disk.

Built in about three minutes, which download most of the time, and kept by a digest of everything here. Beside the disk are the kernel,
the initial RAM disk, and the guest's Python, which compiles the checkout for the guest (`checkout`).
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.debian import root as debian_root
from deploy.debian.root import NotHere
from deploy.debian.wheels import download_wheels
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.machine.images import checkout, disks
from worker.standalone.images.build import build_images
from worker.standalone.parts.debian import NotFetched, PrivateApt, this_release, unpack
from worker.standalone.parts.fetch import CONTAINERD_SUITE

CHECKOUT: Final = Path(__file__).parents[3]
HERE: Final = Path(__file__).parent
FILES: Final = CHECKOUT / "tests/machine/guest"
SHELL: Final = CHECKOUT / "tests/machine/guest_shell.py"
REQUIREMENTS: Final = ("requirements.txt", "requirements-temporal.txt")
PACKAGES: Final = (
    *("systemd", "systemd-sysv", "libpam-systemd", "dbus", "udev", "linux-image-cloud-amd64", "initramfs-tools", "lz4"),
    *("kmod", "iproute2", "nftables", "procps", "mount", "passwd", "e2fsprogs", "ca-certificates", "curl"),
    *("python3", "python3-venv", "containerd", "runc", "crun", "containernetworking-plugins", "criu"),
    *("busybox-static", "apparmor", "open-iscsi", "targetcli-fb"),
)
DISABLED: Final = (
    *("containerd.service", "open-iscsi.service", "iscsid.socket", "rtslib-fb-targetctl.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer", "e2scrub_all.timer"),
    *("e2scrub_reap.service", "getty@tty1.service"),
)
"""Units of packages that a test starts if it is about them: emulated, each costs seconds of every boot."""
INITRD: Final = {
    "conf.d/machine": "MODULES=list\nCOMPRESS=lz4\n",
    "modules": "virtio_pci\nvirtio_blk\next4\n",
}
"""Settings of initramfs-tools: what the root disk needs and no more, since unpacking all drivers costs seconds of each boot."""
DISK_GIB: Final = 16
MACHINE_ID: Final = hashlib.sha256(b"tempolet's test machine").hexdigest()[:32]
PYTHON: Final = ("usr/bin/python3.13", "usr/lib/python3.13")
PYTHON_NEEDS: Final = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libz.so.1", "libexpat.so.1")


@dataclass(frozen=True, slots=True)
class Guest:
    """The built files of a guest."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The raw image of the root disk; only read, a machine writes into an overlay."""
        return self.folder / "disk.img"

    @property
    def kernel(self) -> Path:
        """The Linux kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The initial RAM disk."""
        return self.folder / "initrd.img"

    @property
    def python(self) -> tuple[str, ...]:
        """The guest's Python as a command of this machine; it has the standard library only."""
        root = self.folder / "python"
        libraries = f"{root}/usr/lib/x86_64-linux-gnu"
        return (f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries, f"{root}/{PYTHON[0]}")


def find_guest() -> Guest:
    """Return the guest of this checkout, built if it is not there; raises CannotBuild."""
    cache = guest_cache()
    wanted = ("disk.img", "vmlinuz", "initrd.img", "python")
    if cache.lacking(wanted, os.R_OK):
        with cache.building() as fresh:
            if cache.lacking(wanted, os.R_OK):
                _build(fresh)
    return Guest(cache.folder)


def guest_cache() -> BuildCache:
    """Return where the guest is kept."""
    ours = [*(HERE / f"{name}.py" for name in ("guest", "disks", "checkout")), SHELL, *FILES.iterdir()]
    product = [
        *(CHECKOUT / "deploy/debian" / name for name in ("root.py", "wheels.py")),
        *(CHECKOUT / "worker/standalone/images").glob("*.py"),
        *(CHECKOUT / name for name in REQUIREMENTS),
    ]
    return BuildCache(cache_root() / "machine", "guest", digest([*ours, *product], CONTAINERD_SUITE))


def _build(fresh: Path) -> None:
    root = fresh / "root"
    debian_root.bootstrap(root, PACKAGES, "apt")
    _install_parts(root, fresh)
    _install_venv(root)
    _configure(root)
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(root / name, fresh / name)  # through their links
    for name in (*PYTHON, *(f"usr/lib/x86_64-linux-gnu/{one}" for one in PYTHON_NEEDS)):
        _copy(root / name, fresh / "python" / name)
    disks.make_disk(fresh / "disk.img", root, DISK_GIB << 10)
    shutil.rmtree(root)


def _install_parts(root: Path, fresh: Path) -> None:
    """Add what `make parts` gives: the newer containerd, in a folder that is not on PATH, and the images."""
    parts = root / "opt/tempolet-parts"
    try:
        apt = PrivateApt(fresh / "apt", this_release())
        apt.prepare([CONTAINERD_SUITE])
        for archive in apt.download("containerd", CONTAINERD_SUITE):
            unpack(archive, parts / "root")
    except NotFetched as error:
        raise NotHere(str(error)) from error
    finally:
        shutil.rmtree(fresh / "apt", ignore_errors=True)
    (parts / "bin").mkdir()
    for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
        (parts / "bin" / name).symlink_to(f"../root/usr/bin/{name}")
    build_images(root / "usr/bin/busybox", parts / "images")


def _install_venv(root: Path) -> None:
    """Install the pinned packages with the guest's Python; this machine's pip fetches them as it is configured to."""
    wheels, home = root / "root/wheels", root / "opt/tempolet"
    download_wheels(REQUIREMENTS, wheels)
    checkout.copy(CHECKOUT, home)
    (home / ".venv").unlink()  # venv makes no environment where a link is
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/root/wheels"}
    setup = "cd /opt/tempolet && exec python3 -m deploy.setup --without-parts"
    debian_root.in_root(root, ["/bin/sh", "-c", setup], offline)
    shutil.rmtree(wheels)
    (home / ".venv").rename(root / "opt/tempolet-venv")
    shutil.rmtree(home)
    home.mkdir()


def _configure(root: Path) -> None:
    system = root / "etc/systemd"
    shutil.copy(FILES / "fstab", root / "etc/fstab")
    shutil.copy(FILES / "10-user.network", system / "network")
    shutil.copy(FILES / "test-shell.service", system / "system")
    shutil.copy(SHELL, root / "usr/local/lib")
    (root / "etc/hostname").write_text("machine\n")
    (root / "etc/machine-id").write_text(MACHINE_ID + "\n")  # known: no first boot, which would take longer
    (root / "etc/resolv.conf").write_text("")
    for profile in (root / "etc/apparmor.d").iterdir():  # over a hundred, compiled at each boot for a third of a minute
        if profile.is_file() or profile.is_symlink():
            profile.unlink()
    control = ["systemctl", "--quiet"]
    debian_root.in_root(root, [*control, "enable", "test-shell.service", "systemd-networkd.service"], {})
    debian_root.in_root(root, [*control, "disable", *DISABLED], {})
    debian_root.in_root(root, [*control, "mask", "systemd-networkd-wait-online.service"], {})
    for name, content in INITRD.items():
        (root / "etc/initramfs-tools" / name).write_text(content)
    debian_root.in_root(root, ["update-initramfs", "-u"], {})
    for name in ("etc/.updated", "var/.updated"):  # nothing to bring up to date at the first boot
        (root / name).touch()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy(source, target)
