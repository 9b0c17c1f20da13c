"""Waits until the cluster has a ready Node object for this node; used by `tempolet up` with a kubeconfig, and by `tempolet join`.

Uses the node's own credentials, so that the kubeconfig of another user is reported with the API server's words.
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.kubeconfig import KubeconfigRefused, load_kubeconfig
from activities.clients.api_server.resources import NODES
from worker.daemon.config import node_name
from worker.standalone.node_config import log_of
from worker.standalone.settings import Settings

BETWEEN_LOOKS: Final = 0.1


class NotJoined(Exception):
    """The cluster has no such node, or it is not ready; the message says why and where to look."""


async def until_joined(settings: Settings, within: timedelta) -> str:
    """Wait until the Node object is Ready; returns a line for the operator. Raises NotJoined."""
    log = log_of(settings, "node")
    name = node_name(settings.hostname_override or None)
    try:
        async with ApiServer(load_kubeconfig(Path(settings.kubeconfig)), user_agent="tempolet-up") as api:
            deadline = asyncio.get_running_loop().time() + within.total_seconds()
            while why := await why_not_ready(api, name):
                if not settings.node.running():
                    raise NotJoined(f"the node process has ended; {log.ending()}")
                if asyncio.get_running_loop().time() > deadline:
                    raise NotJoined(f"{api.server} after {within.seconds} s: {why}; see {log.where}")
                await asyncio.sleep(BETWEEN_LOOKS)
            return f"node {name} of {api.server} is Ready"
    except KubeconfigRefused as error:
        raise NotJoined(str(error)) from error


async def why_not_ready(api: ApiServer, name: str) -> str:
    """Return why a Node is not Ready yet; empty if it is."""
    try:
        return _not_ready(await api.get(NODES.path(name)))
    except (ApiAway, ApiRefused) as error:
        return str(error)


def _not_ready(node: dict[str, Any]) -> str:
    name = node["metadata"]["name"]
    for condition in node.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready":
            words = f"{condition.get('reason')}: {condition.get('message')}"
            return "" if condition["status"] == "True" else f"node {name} is not Ready ({words})"
    return f"node {name} has not reported yet whether it is Ready"
