"""What a network namespace's devices have sent and received (/proc/<pid>/net/dev), as cAdvisor counts it.

Devices that only join a pod to the node are the other end's business and left out (libcontainer/handler.go isIgnoredDevice).
"""

from typing import Final, NamedTuple

from worker.stats.cgroups.usage import read_text

_JOINTS: Final = (b"lo", b"veth", b"docker", b"nerdctl")
_FIELDS: Final = 16


class Device(NamedTuple):
    """One device since it was made."""

    name: str
    received_bytes: int
    received_packets: int
    received_errors: int
    received_dropped: int
    sent_bytes: int
    sent_packets: int
    sent_errors: int
    sent_dropped: int


def devices_of(process: int | str) -> list[Device]:
    """Read those that a process sees (a pid, or `self`); none when it has ended."""
    return parse_devices(read_text(f"/proc/{process}/net/dev"))


def parse_devices(text: bytes) -> list[Device]:
    """Read the kernel's table."""
    found = []
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(b":")
        name, fields = name.strip(), numbers.split()
        if len(fields) == _FIELDS and not name.lower().startswith(_JOINTS):
            said = name.decode("utf-8", "backslashreplace")  # who may make devices in a pod may call them by any bytes
            found.append(Device(said, *(int(one) for one in (*fields[:4], *fields[8:12]))))
    return found
