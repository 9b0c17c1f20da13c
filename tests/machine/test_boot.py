"""Is the machine what production nodes are: systemd as PID 1 on cgroup v2? Do its disks keep what they have to?"""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.machine.hardware import Cable, Disk, Hardware
from tests.machine.machine import Machine, Parts
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
essential = pytest.mark.machine(essential=True)
CONTROLLERS = {"cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc"}


@essential
def test_systemd_has_started_everything(shared_machine: Machine) -> None:
    """It is PID 1, and no unit has failed."""
    assert shared_machine.run("cat /proc/1/comm").stdout == "systemd\n"
    assert shared_machine.run("systemctl is-system-running", check=False).stdout == "running\n", shared_machine.run(
        "systemctl --failed --no-legend"
    ).stdout


@essential
def test_the_machine_has_cgroup_v2_alone_with_all_controllers(shared_machine: Machine) -> None:
    """And pressure, AppArmor and a disk of 16 GiB, of which little is used."""
    assert shared_machine.run("stat -fc %T /sys/fs/cgroup").stdout == "cgroup2fs\n"
    assert set(shared_machine.run("cat /sys/fs/cgroup/cgroup.controllers").stdout.split()) == CONTROLLERS
    assert shared_machine.run("cat /proc/pressure/cpu").stdout.startswith("some avg10=")
    assert shared_machine.run("cat /sys/module/apparmor/parameters/enabled").stdout == "Y\n"
    size, used = map(int, shared_machine.run("df -BG --output=size,used / | tail -1 | tr -d G").stdout.split())
    assert (size, used) >= (15, 0)
    assert used <= 3


@essential
def test_the_shell_tells_how_a_command_ended(shared_machine: Machine) -> None:
    """Over the serial port of the guest, in more than one message of its driver."""
    ran = shared_machine.run("head -c 200000 /dev/zero | tr '\\0' x; echo why >&2; exit 9", check=False)
    assert (ran.code, len(ran.stdout), ran.stderr) == (9, 200000, "why\n")
    content = bytes(range(256)) * 2000
    shared_machine.put(content, "/run/some/file")
    assert shared_machine.get("/run/some/file") == content


@pytest.mark.machine
def test_a_reboot_keeps_the_disk(machine: Machine) -> None:
    """Every boot is another one; the power button switches off in order, and on again."""
    boots = [machine.boot_id()]
    machine.put(b"kept", "/var/lib/file")
    machine.reboot()
    boots.append(machine.boot_id())
    assert machine.get("/var/lib/file") == b"kept"
    machine.power_off()
    assert not machine.is_on()
    assert "reboot: Power down" in machine.console.text()
    machine.boot()
    boots.append(machine.boot_id())
    assert machine.get("/var/lib/file") == b"kept"
    assert len(set(boots)) == 3


@pytest.mark.machine
@pytest.mark.parametrize("how", ["plug", "reset"])
def test_power_loss_keeps_what_was_synced(machine: Machine, how: str) -> None:
    """And only that: a file that no program has flushed yet is gone, so such a test learns something."""
    machine.run("echo synced > /var/lib/synced && sync /var/lib/synced && echo lost > /var/lib/lost")
    if how == "plug":
        machine.pull_plug()
        assert not machine.is_on()
        machine.boot()
    else:
        machine.reset()
    assert machine.get("/var/lib/synced") == b"synced\n"
    assert machine.run("cat /var/lib/lost", check=False).stdout == ""


@pytest.mark.machine
def test_a_machine_has_the_hardware_that_a_test_wants(make_machine: Callable[[Hardware], Machine]) -> None:
    """CPUs, memory, NUMA nodes, disks, the clock and the kernel's words."""
    wanted = Hardware(
        memory_mib=2048,
        sockets=2,
        cores=1,
        threads=2,
        numa_nodes=2,
        disks=[Disk("spare", 64)],
        clock="2031-01-01T00:00:00",
        kernel_words=["some.word=1"],
        hostname="other",
    )
    machine = make_machine(wanted)
    machine.boot()
    told = machine.run("nproc; ls -d /sys/devices/system/node/node?; hostname; cat /proc/cmdline").stdout
    assert told.split()[:4] == ["4", "/sys/devices/system/node/node0", "/sys/devices/system/node/node1", "other"]
    assert "some.word=1" in told
    assert machine.run("cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list").stdout == "0-1\n"
    assert machine.run("cat /sys/devices/system/node/node1/cpulist").stdout == "2-3\n"
    assert machine.run("blockdev --getsize64 /dev/disk/by-id/virtio-spare").stdout == f"{64 << 20}\n"
    now = datetime.fromtimestamp(int(machine.run("date +%s").stdout), UTC)
    assert (now.year, now.month, now.day) == (2031, 1, 1)


@pytest.mark.machine
def test_two_machines_share_a_network(make_machine: Callable[[Hardware], Machine], tmp_path: Path) -> None:
    """One asks a server of the other, also after that has lost its power."""
    cables = [Cable(tmp_path / "cable", first=first) for first in (True, False)]
    server, client = (make_machine(Hardware(hostname=f"m{at}", cable=one)) for at, one in enumerate(cables))
    for boot in range(2):
        server.boot()
        server.put(f"boot {boot}".encode(), "/run/served/word")
        server.run(_with_address(cables[0], 1))
        server.run("setsid python3 -m http.server --directory /run/served 8000 > /dev/null 2>&1 < /dev/null &")
        if not boot:
            client.boot()
            client.run(_with_address(cables[1], 2))
        asked = (
            "curl --silent --show-error --fail --retry 60 --retry-all-errors --max-time 10 http://10.9.0.1:8000/word"
        )
        assert client.run(asked).stdout == f"boot {boot}"
        server.pull_plug()


def _with_address(cable: Cable, number: int) -> str:
    """Return the command that gives a guest's card of a cable its address."""
    card = f"$(basename $(dirname $(grep -l {cable.mac} /sys/class/net/*/address)))"
    return f"card={card}; ip address add 10.9.0.{number}/24 dev $card && ip link set $card up"


BOOTS = """
import sys
from pathlib import Path
from tests.machine.emulator import start_qemu
from tests.machine.images.guest import find_guest
from tests.machine.images.qemu import find_qemu
qemu = start_qemu(find_qemu(), ["-nodefaults", "-display", "none", "-accel", "tcg", "-kernel", str(find_guest().kernel)])
print(qemu.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.machine
def test_qemu_dies_with_a_session_that_is_killed(machine_parts: Parts) -> None:  # noqa: ARG001 - they are built
    """By kill -9, when no fixture can end it."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", BOOTS], cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as session:
        assert session.stdout is not None
        qemu = Path("/proc") / session.stdout.readline().strip()
        assert qemu.exists()
        session.kill()
        session.wait()
    wait_until(lambda: not qemu.exists() or "State:\tZ" in (qemu / "status").read_text(), "QEMU has ended")
