"""Bytes and packets of a network namespace's devices (/proc/<pid>/net/dev), as cAdvisor counts them.

Devices that only connect a pod to the node are omitted (libcontainer/handler.go isIgnoredDevice).
"""

from typing import Final, NamedTuple

from worker.stats.cgroups.usage import read_text

_JOINTS: Final = (b"lo", b"veth", b"docker", b"nerdctl")
_FIELDS: Final = 16


class Device(NamedTuple):
    """Counters of one device."""

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
    """Read the devices that a process sees (a pid, or `self`); none if it has ended."""
    return parse_devices(read_text(f"/proc/{process}/net/dev"))


def parse_devices(text: bytes) -> list[Device]:
    """Parse the kernel's table."""
    found = []
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(b":")
        name, fields = name.strip(), numbers.split()
        if len(fields) == _FIELDS and not name.lower().startswith(_JOINTS):
            decoded = name.decode("utf-8", "backslashreplace")  # a pod may name its devices with any bytes
            found.append(Device(decoded, *(int(one) for one in (*fields[:4], *fields[8:12]))))
    return found
