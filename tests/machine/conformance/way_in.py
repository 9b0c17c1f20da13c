"""How the API server on this machine reaches a node in a guest, and its pods: by the API server's own way, an egress proxy.

The guest is behind QEMU's user network, which only goes out. QEMU forwards one port of this machine's loopback to `guest_proxy` in the
guest, and the API server asks that to connect it, as it asks Konnectivity's in a cloud. So no device, address or route of this machine
is needed. The API server takes a proxy without TLS only at a socket of a file (with a `tcp` one it ends in a nil pointer, 1.36.3), so
`WayIn` listens at one and passes on.
"""

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.free_ports import free_port
from tests.machine.hardware import NETWORK
from tests.machine.machine import Machine

PROXY: Final = Path(__file__).parent / "guest_proxy.py"
PROXY_PORT: Final = 10999
"""In the guest."""
IN_GUEST: Final = "/run/guest_proxy.py"
UNIT: Final = "way-in"
PART: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class WayIn:
    """A socket in a folder, which leads into one machine."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def socket(self) -> Path:
        """Where the API server connects."""
        return self.folder / "way-in"

    def flags(self) -> list[str]:
        """Return the API server's flags, and write the file that they name."""
        file = self.folder / "egress.json"
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self.socket)}}}
        kind = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
        file.write_text(json.dumps({**kind, "egressSelections": [{"name": "cluster", "connection": connection}]}))
        return ["--egress-selector-config-file", str(file)]

    @contextlib.contextmanager
    def into(self, machine: Machine) -> Iterator[None]:
        """Lead it into a machine that is booted."""
        machine.put(PROXY, IN_GUEST)
        machine.run(f"systemd-run -q --unit {UNIT} /usr/bin/python3 -IS {IN_GUEST} {PROXY_PORT}")
        _monitor(machine, f"hostfwd_add {NETWORK} tcp:127.0.0.1:{self.port}-:{PROXY_PORT}")
        try:
            with passed_on(self.socket, self.port):
                yield
        finally:
            _monitor(machine, f"hostfwd_remove {NETWORK} tcp:127.0.0.1:{self.port}")
            machine.run(f"systemctl stop {UNIT}; rm {IN_GUEST}", check=False)


@contextlib.contextmanager
def passed_on(path: Path, port: int) -> Iterator[None]:
    """Listen at a socket, and pass each connection on to a port of loopback."""

    class PassOn(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as there:
                back = threading.Thread(target=_pump, args=(there, self.request))
                back.start()
                _pump(self.request, there)
                back.join()

    with socketserver.ThreadingUnixStreamServer(str(path), PassOn) as server:
        server.daemon_threads = True  # a connection that nobody ends does not hold up the session's end
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            path.unlink()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes, and its end."""
    with contextlib.suppress(OSError):
        while part := source.recv(PART):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _monitor(machine: Machine, line: str) -> None:
    """Execute a command of QEMU's monitor, which answers with an error or nothing."""
    said = machine.control("human-monitor-command", **{"command-line": line})
    assert not said or "removed" in str(said), f"{line}: {said}"
