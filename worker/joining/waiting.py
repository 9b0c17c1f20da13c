"""Waits until the Node is Ready, or says what each service waits for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import KubeconfigRefused, load_kubeconfig
from worker.joining.places import Places
from worker.joining.refusal import NotReadyYet
from worker.joining.systemd import ROLES, Systemd, unit_of
from worker.standalone.joining import why_not_ready

BETWEEN_LOOKS: Final = timedelta(milliseconds=500)
WHAT_NOW: Final = (
    "  The services go on by themselves; what they wrote: journalctl -u 'tempolet-*'. Run the same command again to wait on, "
    "or `tempolet leave` to undo it"
)


async def until_ready(places: Places, systemd: Systemd, node: str, within: timedelta) -> list[str]:
    """Wait until the services run and the Node is Ready; returns what each service says, e.g. that it waits for Temporal.

    It asks with the node's own kubeconfig. Raises NotReadyYet with each service's words.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within.total_seconds()
    async with _api_as_it_comes(places.kubeconfig) as why:
        while True:
            words = await why(node)
            units = {role: await asyncio.to_thread(systemd.unit, unit_of(role)) for role in ROLES}
            said = [f"  {unit_of(role)}: {unit.words()}" for role, unit in units.items()]
            starting = [unit_of(role) for role, unit in units.items() if unit.active != "active"]
            if not words and not starting:  # the Node may be Ready by the report of a kubelet that has just stopped
                return said
            gives_up = any(unit.keeps_ending for unit in units.values())
            if gives_up or loop.time() > deadline:
                late = "" if gives_up else f" after {within.total_seconds():g} s"
                why_not = words or f"did not start: {', '.join(starting)}"
                raise NotReadyYet("\n".join([f"node {node} is not Ready{late}: {why_not}", *said, WHAT_NOW]))
            await asyncio.sleep(BETWEEN_LOOKS.total_seconds())


@contextlib.asynccontextmanager
async def _api_as_it_comes(path: Path) -> AsyncIterator["_WhyNot"]:
    """Yield what asks the API server as soon as there is a kubeconfig."""
    async with contextlib.AsyncExitStack() as stack:
        yield _WhyNot(path, stack)


class _WhyNot:
    """Asks why the Node is not Ready; a client stays open between the calls."""

    def __init__(self, path: Path, stack: contextlib.AsyncExitStack) -> None:
        self._path = path
        self._stack = stack
        self._api: ApiServer | None = None

    async def __call__(self, node: str) -> str:
        if self._api is None:
            if not self._path.exists():
                return f"it has no certificate yet ({self._path}): `kubectl get csr` shows whether its request waits for an approval"
            try:
                kubeconfig = load_kubeconfig(self._path)
            except KubeconfigRefused as error:
                return str(error)
            self._api = await self._stack.enter_async_context(ApiServer(kubeconfig, user_agent="tempolet-join"))
        return await why_not_ready(self._api, node)
