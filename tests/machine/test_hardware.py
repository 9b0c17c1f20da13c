"""Does QEMU get the machine that a test has asked for?"""

from pathlib import Path

import pytest

from tests.machine.hardware import Cable, Disk, FolderDisk, Hardware, ImpossibleHardware, Places, arguments

PLACES = Places(Path("/m"))


def given(hardware: Hardware, option: str, accelerator: str = "tcg") -> list[str]:
    """Return the values of an option."""
    words = arguments(hardware, PLACES, accelerator)
    return [words[at + 1] for at, word in enumerate(words) if word == option]


@pytest.mark.parametrize(
    ("hardware", "option", "values"),
    [
        pytest.param(Hardware(), "-smp", ["2,sockets=1,cores=2,threads=1"], id="two-cores-are-enough"),
        pytest.param(
            Hardware(sockets=2, cores=2, threads=2), "-smp", ["8,sockets=2,cores=2,threads=2"], id="threads-of-a-core"
        ),
        pytest.param(Hardware(memory_mib=512), "-m", ["512"], id="memory"),
        pytest.param(Hardware(), "-numa", [], id="one-node-needs-no-numa"),
        pytest.param(
            Hardware(sockets=2, threads=2, numa_nodes=2),
            "-numa",
            ["node,nodeid=0,cpus=0-3,memdev=memory0", "node,nodeid=1,cpus=4-7,memdev=memory1"],
            id="a-node-has-whole-cores",
        ),
        pytest.param(
            Hardware(memory_mib=2048, numa_nodes=2),
            "-object",
            ["memory-backend-ram,id=memory0,size=1024M", "memory-backend-ram,id=memory1,size=1024M"],
            id="nodes-share-the-memory",
        ),
        pytest.param(Hardware(), "-rtc", ["base=utc"], id="the-clock-is-this-machines"),
        pytest.param(Hardware(), "-netdev", ["user,id=outside,restrict=on"], id="no-network-beyond-the-machine"),
        pytest.param(Hardware(reaches_host=True), "-netdev", ["user,id=outside"], id="servers-of-this-machine"),
        pytest.param(
            Hardware(folder_disks=[FolderDisk("cidata", Path("/seed"))]),
            "-blockdev",
            ["driver=vvfat,dir=/seed,label=cidata,node-name=cidata,read-only=on"],
            id="a-folder-is-a-disk-with-a-label",
        ),
        pytest.param(
            Hardware(clock="2031-01-01T00:00:00"), "-rtc", ["base=2031-01-01T00:00:00"], id="the-clock-is-set"
        ),
    ],
)
def test_hardware(hardware: Hardware, option: str, values: list[str]) -> None:
    """A row an option."""
    assert given(hardware, option) == values


def test_two_machines_have_one_network() -> None:
    """Beside that to this machine: both ends are of one socket, and have cards of two addresses."""
    ends = [Hardware(cable=Cable(Path("/s"), first=first)) for first in (True, False)]
    assert [given(one, "-netdev")[1] for one in ends] == [
        "stream,id=cable,addr.type=unix,addr.path=/s,server=on",
        "stream,id=cable,addr.type=unix,addr.path=/s,server=off,reconnect-ms=1000",
    ]
    cards = [one for end in ends for one in given(end, "-device") if "netdev=cable" in one]
    assert cards == [f"virtio-net,netdev=cable,mac=52:54:00:00:00:1{number},romfile=" for number in (1, 2)]


def test_a_disk_has_its_name_in_the_guest() -> None:
    """After those of the system."""
    devices = given(Hardware(disks=[Disk("spare", 64)]), "-device")
    assert [one for one in devices if "virtio-blk" in one] == [
        "virtio-blk,drive=root,serial=root",
        "virtio-blk,drive=checkout,serial=checkout",
        "virtio-blk,drive=spare,serial=spare",
    ]


def test_every_disk_keeps_what_is_flushed() -> None:
    """A test of power loss would learn nothing from a cache that ignores flushes."""
    assert all("cache=writeback" in one for one in given(Hardware(disks=[Disk("spare", 64)]), "-drive"))


@pytest.mark.parametrize(
    ("accelerator", "values"), [("tcg", ["tcg,thread=multi", "max"]), ("kvm", ["kvm", "host"])], ids=["tcg", "kvm"]
)
def test_the_accelerator_chooses_the_cpu(accelerator: str, values: list[str]) -> None:
    """Emulation has a thread for each CPU."""
    assert [*given(Hardware(), "-accel", accelerator), *given(Hardware(), "-cpu", accelerator)] == values


@pytest.mark.parametrize(
    "hardware",
    [
        pytest.param(Hardware(cores=3, numa_nodes=2), id="a-core-in-two-nodes"),
        pytest.param(Hardware(memory_mib=1001, numa_nodes=2), id="half-a-mebibyte"),
    ],
)
def test_what_cannot_be_shared_evenly_is_refused(hardware: Hardware) -> None:
    """By its numbers."""
    with pytest.raises(ImpossibleHardware, match="2 NUMA nodes cannot share"):
        arguments(hardware, PLACES, "tcg")
