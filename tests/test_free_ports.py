"""Do test processes keep out of each other's ports, and of those that the kernel gives away?"""

import subprocess
import sys
from pathlib import Path

from tests.free_ports import EACH, free_port, free_ports

ASK = "from tests.free_ports import free_port; print(free_port())"
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_another_process_has_other_ports() -> None:
    """For as long as this one lives."""
    ours = free_port()
    asked = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert int(asked.stdout) // EACH != ours // EACH


def test_a_port_does_not_come_twice_in_a_row() -> None:
    """Nor is it one that the kernel gives to others."""
    found = [*free_ports(3), free_port(), *free_ports(2)]
    assert len(set(found)) == len(found)
    assert max(found) < int(EPHEMERAL.read_text().split()[0])
