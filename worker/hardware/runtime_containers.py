"""The containers that the runtime has, by their ids: who had CPUs by a `cpu_manager_state` of version 1.

Asked while the hardware's state is read, in a thread, and only for such a file.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit

WITHIN: Final = 60.0
"""Seconds."""


class RuntimeContainers:
    """Those of one runtime; made on the event loop, called from a thread."""

    def __init__(self, endpoint: str) -> None:
        """Take the runtime's endpoint; it is not asked yet."""
        self._endpoint, self._loop = endpoint, asyncio.get_running_loop()

    def __call__(self) -> Mapping[str, tuple[str, str]]:
        """Return the uid of the pod and the name of each container, by its id; raises CriError and TimeoutError."""
        return asyncio.run_coroutine_threadsafe(self._listed(), self._loop).result(WITHIN)

    async def _listed(self) -> Mapping[str, tuple[str, str]]:
        runtime = RuntimeClient(self._endpoint, StartLimit(1))
        try:
            uids = {one.id: str(one.metadata.uid) for one in await runtime.list_pod_sandbox()}
            found = await runtime.list_containers()
        finally:
            await runtime.close()
        return {
            one.id: (uids[one.pod_sandbox_id], str(one.metadata.name)) for one in found if one.pod_sandbox_id in uids
        }
