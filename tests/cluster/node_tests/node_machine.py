"""The machine that the official node tests take over: a real systemd with a network, a disk and folders of its own.

The tests use fixed ports (6443, 10248, 10250, 10255), fixed folders (/var/lib/kubelet, /var/log/pods) and the root of every cgroup
hierarchy, restart the kubelet through systemctl, and fill the disk. All of that is the machine's own here, and ends with it.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.bench.peers.kubelet import TUNABLES
from tests.cluster.node_tests import node_bus
from tests.cluster.node_tests.huge_pages import HugePageCgroups
from tests.worker.daemon.systemd_machine import Machine

ADDRESS: Final = "10.89.255.1"
"""The node's, in a network that nobody else sees."""
DEVICE: Final = "nodeip0"
DISK_BYTES: Final = 20 << 30
"""The disk suites fill 4 GiB and want as much left; what is not used takes no place."""
SUDO: Final = '#!/bin/sh\nexec "$@"\n'
"""The tests call sudo, and are root already."""
PREPARED: Final = """
mkdir /run/cgroups
mount --rbind /sys/fs/cgroup /run/cgroups
mount -t sysfs sysfs /sys
{cgroups}
umount --recursive /run/cgroups
rmdir /run/cgroups
ip link set lo up
ip link add {device} type bridge
ip addr add {address}/24 dev {device}
ip link set {device} up
ip route add default via {gateway} dev {device}
mount -o loop {disk} /var/lib
mkdir -p /var/lib/log /var/lib/kubelet
mount --bind /var/lib/log /var/log
"""
"""What its first process does: /sys of its own network, addresses and a default route, the disk."""


class NodeMachine(Machine):
    """One such machine; a context manager. `folder` becomes the place of its disk, units and programs."""

    def __init__(self, folder: Path, *, huge_pages: bool = False) -> None:
        folder.mkdir(parents=True)
        super().__init__(folder)
        self.programs = folder / "bin"
        """Is searched first by what runs inside."""
        self.own_network = True
        self._disk = folder / "disk"
        gateway = ADDRESS.rpartition(".")[0] + ".254"
        self._huge_page_cgroups = HugePageCgroups(folder, wanted=huge_pages)
        cgroups = self._huge_page_cgroups.prepared
        self.prepared = PREPARED.format(
            cgroups=cgroups, device=DEVICE, address=ADDRESS, gateway=gateway, disk=self._disk
        )
        self.prepared += node_bus.PREPARED
        bus = folder / "bus.conf"
        bus.write_text(node_bus.CONFIGURATION)
        for name, unit in node_bus.bus_units(bus).items():
            self.write(name, unit)
        self._kernel: dict[str, str] = {}

    def __enter__(self) -> "NodeMachine":
        self.programs.mkdir()
        self.write_program("sudo", SUDO)
        with self._disk.open("wb") as disk:
            disk.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", self._disk], check=True, capture_output=True)
        self._kernel = {name: Path("/proc/sys", name).read_text() for name in TUNABLES}
        with self._huge_page_cgroups.mounted():
            super().__enter__()
        try:
            self.systemctl("start", *node_bus.SERVICES)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            with self._huge_page_cgroups.mounted():
                super().__exit__(*failure)
            self._huge_page_cgroups.remove()
        finally:
            for name, value in self._kernel.items():  # the only things in it that are the whole kernel's
                Path("/proc/sys", name).write_text(value)
            self._disk.unlink(missing_ok=True)

    def write_program(self, name: str, text: str) -> None:
        """Put a script where what runs inside finds it first."""
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    @property
    def path(self) -> str:
        """The PATH of what runs inside."""
        return os.pathsep.join([str(self.programs), os.environ["PATH"], "/usr/sbin", "/sbin"])

    @contextlib.contextmanager
    def running(self, *command: str | Path, within: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command inside, in a folder, with a log file, while the block runs."""
        script = 'cd "$0" && exec "$@"'
        environment: Mapping[str, str] = {"PATH": self.path, "HOME": "/root"}
        with log.open("ab") as output:
            started = subprocess.Popen(
                [*self.entering, "sh", "-c", script, within, *command], stdout=output, stderr=output, env=environment
            )
        try:
            yield started
        finally:
            started.terminate()
            started.wait()


def missing_programs() -> list[str]:
    """List what such a machine needs and this one lacks."""
    needed = ("unshare", "nsenter", "systemctl", "systemd-run", "mkfs.ext4", "losetup", "ip", "dbus-daemon")
    missing = [name for name in needed if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    return missing if node_bus.LOGIND.exists() else [*missing, str(node_bus.LOGIND)]
