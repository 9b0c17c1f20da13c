"""Network devices by rtnetlink: create a bridge, delete a device, list what is attached to a bridge.

Used by a private containerd, so that no `ip` program is needed.
"""

import errno
import os
import socket
import struct
from pathlib import Path
from typing import Final

LINKS: Final = Path("/sys/class/net")
_NEW_LINK: Final = 16  # rtnetlink(7): RTM_NEWLINK
_DELETE_LINK: Final = 17
_ACKNOWLEDGED: Final = 5  # netlink(7): NLM_F_REQUEST | NLM_F_ACK
_CREATED: Final = 0x600  # NLM_F_CREATE | NLM_F_EXCL
_IFNAME: Final = 3  # IFLA_IFNAME
_LINKINFO: Final = 18
_INFO_KIND: Final = 1


def create_bridge(name: str) -> bool:
    """Create a bridge; False if there is a device of that name. Raises OSError if the kernel refuses."""
    kind = _attribute(_LINKINFO, _attribute(_INFO_KIND, b"bridge"))
    return _ask(_NEW_LINK, _ACKNOWLEDGED | _CREATED, name, kind, unless=errno.EEXIST)


def delete_link(name: str) -> bool:
    """Delete a network device; False if there is none of that name. Raises OSError if the kernel refuses."""
    return _ask(_DELETE_LINK, _ACKNOWLEDGED, name, unless=errno.ENODEV)


def links_on_bridge(bridge: str) -> list[str]:
    """List the devices (veths of pods) that are attached to a bridge."""
    try:
        return sorted(path.name for path in (LINKS / bridge / "brif").iterdir())
    except OSError:  # no bridge, or gone meanwhile
        return []


def _ask(what: int, flags: int, name: str, more: bytes = b"", *, unless: int) -> bool:
    """Send one request about a device; False if the answer is the error `unless`."""
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _attribute(_IFNAME, name.encode() + b"\0") + more
    message = struct.pack("=IHHII", 16 + len(body), what, flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.sendto(message, (0, 0))
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if error and -error != unless:
        doing = "creating bridge" if what == _NEW_LINK else "deleting network device"
        raise OSError(-error, f"{doing} {name}: {os.strerror(-error)}")
    return not error


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
