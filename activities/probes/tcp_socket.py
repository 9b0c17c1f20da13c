"""tcpSocket probes: a connection that opens is a success (pkg/probe/tcp/tcp.go).

It is closed normally. The kubelet sets SO_LINGER to a second to avoid TIME_WAIT. On Linux that avoids none and makes
the close wait for the peer, here on the event loop; a linger of zero would send the server a reset.
"""

import asyncio
from typing import Any

from activities.probes.dialing import dial, refusal_reason
from activities.probes.outcome import Outcome, Target, address, port_of


class TcpSocket:
    """tcpSocket: host (by default the pod's address) and port."""

    def __init__(self, action: dict[str, Any], target: Target, timeout: float) -> None:
        self._action, self._target, self._timeout = action, target, timeout

    async def ask(self) -> Outcome:
        """Connect and close at once; raises NoOutcome for an unknown port name."""
        host, port = self._action.get("host") or self._target.pod_ip, port_of(self._target, self._action["port"])
        try:
            async with asyncio.timeout(self._timeout):
                connection = await dial(host, port)
        except TimeoutError:
            return Outcome(success=False, output=f"dial tcp {address(host, port)}: i/o timeout")
        except OSError as error:
            return Outcome(success=False, output=refusal_reason(host, port, error))
        connection.close()
        return Outcome(success=True)

    async def close(self) -> None:
        """Nothing to close."""
