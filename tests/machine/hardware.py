"""What a machine consists of, and QEMU's arguments for it. Pure.

Times and sizes are what a test chooses; what all machines share is in `arguments`: a console and a control socket, the shell's port, a
network, and disks that keep what the guest has flushed, and lose what it has not, when QEMU is killed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAC: Final = "52:54:00:00:00:01"
"""Of the network's card, by which guest/10-user.network knows it."""
HOST: Final = "10.0.2.2"
"""The guest's address for this machine's loopback, if it `reaches_host`."""
NETWORK: Final = "outside"
"""The name of its network, for QEMU's monitor."""
PATIENT: Final = ("systemd.default_timeout_start_sec=600", "systemd.default_device_timeout_sec=600")
"""A unit of the system that is slow on a busy machine has not failed."""
BOOT: Final = (
    "root=/dev/vda",
    "rw",
    "console=ttyS0",
    "panic=-1",
    "psi=1",
    "mitigations=off",
    *PATIENT,
    "systemd.show_status=1",
)
"""The kernel's words: a panic is a reset, /proc/pressure is there, and no time goes into guarding an emulated CPU."""


class ImpossibleHardware(ValueError):
    """No machine can be like that; says which numbers do not fit."""


@dataclass(frozen=True, slots=True)
class Disk:
    """An empty disk beside the root disk: /dev/disk/by-id/virtio-NAME in the guest."""

    name: str
    mebibytes: int


@dataclass(frozen=True, slots=True)
class FolderDisk:
    """A small read-only disk with a FAT file system of a folder of this machine, as it is at power-on."""

    label: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Cable:
    """One end of a network between two machines, which nothing else is on. The guest gives it an address."""

    socket: Path
    """Of QEMU's, the same for both ends."""
    first: bool
    """It listens; the other connects, also when it was switched on before, or one of the two has lost its power."""

    @property
    def mac(self) -> str:
        """By which the guest knows its card."""
        return f"52:54:00:00:00:1{1 if self.first else 2}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine as a test wants it."""

    memory_mib: int = 3072
    sockets: int = 1
    cores: int = 2
    """In each socket."""
    threads: int = 1
    """Of each core."""
    numa_nodes: int = 1
    """Memory and CPUs are divided evenly among them."""
    disks: Sequence[Disk] = ()
    folder_disks: Sequence[FolderDisk] = ()
    clock: str = ""
    """What the real-time clock shows at power-on, as `2031-01-01T00:00:00` (UTC); empty: this machine's time."""
    kernel_words: Sequence[str] = ()
    """More words of the kernel's command line."""
    reaches_host: bool = False
    """Whether servers on this machine's loopback answer at HOST. Names are resolved nowhere."""
    cable: Cable | None = None
    """To a second machine."""
    hostname: str = "machine"

    @property
    def cpus(self) -> int:
        """The number of logical CPUs."""
        return self.sockets * self.cores * self.threads


@dataclass(frozen=True, slots=True)
class Places:
    """Files of one machine."""

    folder: Path

    @property
    def shell(self) -> Path:
        """The socket of the shell's port."""
        return self.folder / "shell"

    @property
    def control(self) -> Path:
        """The socket of QMP."""
        return self.folder / "qmp"

    def disk(self, name: str) -> Path:
        """The overlay or the image of a disk."""
        return self.folder / f"{name}.qcow2"


def arguments(hardware: Hardware, places: Places, accelerator: str) -> list[str]:
    """Return QEMU's arguments but for kernel and firmware; raises ImpossibleHardware."""
    words = [*BOOT, f"systemd.hostname={hardware.hostname}", *hardware.kernel_words]
    clock = f"base={hardware.clock or 'utc'}"
    cpu = "host" if accelerator == "kvm" else "max"
    threads = ",thread=multi" if accelerator == "tcg" else ""
    network = f"user,id={NETWORK}" + ("" if hardware.reaches_host else ",restrict=on")
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35"),
        *("-accel", accelerator + threads, "-cpu", cpu, "-m", str(hardware.memory_mib), *_processors(hardware)),
        *("-append", " ".join(words), "-rtc", clock, "-serial", "stdio"),
        *("-qmp", f"unix:{places.control},server=on,wait=off"),
        *("-device", "virtio-serial", "-chardev", f"socket,id=shell,path={places.shell},server=on,wait=off"),
        *("-device", "virtserialport,chardev=shell,name=test-shell", "-device", "virtio-rng-pci"),
        *("-netdev", network, "-device", f"virtio-net,netdev={NETWORK},mac={MAC},romfile="),
        *_cable(hardware.cable),
        *_disks(("root", "checkout", *(disk.name for disk in hardware.disks)), places),
        *_folder_disks(hardware.folder_disks),
    ]


def _processors(hardware: Hardware) -> Iterator[str]:
    """Divide CPUs and memory; a node has whole cores, as on a real machine."""
    cores, rest = divmod(hardware.sockets * hardware.cores, hardware.numa_nodes)
    if rest or hardware.memory_mib % hardware.numa_nodes:
        raise ImpossibleHardware(
            f"{hardware.numa_nodes} NUMA nodes cannot share {hardware.sockets * hardware.cores} cores "
            f"and {hardware.memory_mib} MiB evenly"
        )
    topology = f"sockets={hardware.sockets},cores={hardware.cores},threads={hardware.threads}"
    yield from ("-smp", f"{hardware.cpus},{topology}")
    if hardware.numa_nodes == 1:
        return
    each, memory = cores * hardware.threads, hardware.memory_mib // hardware.numa_nodes
    for node in range(hardware.numa_nodes):
        yield from ("-object", f"memory-backend-ram,id=memory{node},size={memory}M")
        cpus = f"{node * each}-{(node + 1) * each - 1}"
        yield from ("-numa", f"node,nodeid={node},cpus={cpus},memdev=memory{node}")


def _cable(cable: Cable | None) -> Iterator[str]:
    if cable is None:
        return
    end = "server=on" if cable.first else "server=off,reconnect-ms=1000"
    yield from ("-netdev", f"stream,id=cable,addr.type=unix,addr.path={cable.socket},{end}")
    yield from ("-device", f"virtio-net,netdev=cable,mac={cable.mac},romfile=")


def _disks(names: Sequence[str], places: Places) -> Iterator[str]:
    for name in names:
        # writeback: a flush of the guest reaches this machine's file, anything else may be lost with QEMU
        yield from ("-drive", f"file={places.disk(name)},if=none,id={name},format=qcow2,cache=writeback,discard=unmap")
        yield from ("-device", f"virtio-blk,drive={name},serial={name}")


def _folder_disks(disks: Sequence[FolderDisk]) -> Iterator[str]:
    for disk in disks:
        given = f"dir={disk.folder},label={disk.label},node-name={disk.label},read-only=on"
        yield from (
            "-blockdev",
            f"driver=vvfat,{given}",
            "-device",
            f"virtio-blk,drive={disk.label},serial={disk.label}",
        )
