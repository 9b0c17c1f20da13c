"""Probe by opening a TCP connection: that it opens is all (pkg/probe/tcp/tcp.go).

It is closed in the ordinary way. The kubelet sets SO_LINGER to a second, to spare TIME_WAIT; tried on Linux, that spares none
and lets the close wait for the peer, here on the event loop, and a linger of none sends the server a reset.
"""

import asyncio
from typing import Any

from activities.probes.dialing import dial, refusal
from activities.probes.outcome import Outcome, Target, address, port_of


class TcpSocket:
    """tcpSocket: host (default the pod's address) and port."""

    def __init__(self, action: dict[str, Any], target: Target, timeout: float) -> None:
        self._action, self._target, self._timeout = action, target, timeout

    async def ask(self) -> Outcome:
        """Connect and close at once; raises NoOutcome for a port that the container does not name."""
        host, port = self._action.get("host") or self._target.pod_ip, port_of(self._target, self._action["port"])
        try:
            async with asyncio.timeout(self._timeout):
                connection = await dial(host, port)
        except TimeoutError:
            return Outcome(success=False, output=f"dial tcp {address(host, port)}: i/o timeout")
        except OSError as error:
            return Outcome(success=False, output=refusal(host, port, error))
        connection.close()
        return Outcome(success=True)

    async def close(self) -> None:
        """Hold nothing."""
