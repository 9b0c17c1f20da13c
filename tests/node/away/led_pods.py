"""Which pods the worker of a node leads without Temporal, as it says itself."""

import asyncio
from pathlib import Path

from worker.delivery.client import SocketLead
from worker.delivery.lead import LeadUnavailable
from worker.delivery.server import socket_path
from worker.payloads.sending import SendingConverter


def led_pods(root_dir: Path) -> frozenset[str] | None:
    """Return the workflow ids of the pods that are led or not handed back yet; None if the worker does not answer."""
    lead = SocketLead(socket_path(root_dir / "tempolet"), SendingConverter())
    try:
        return frozenset(one for one, lead in asyncio.run(lead.leads("")).pods.items() if lead.by_worker)
    except LeadUnavailable:
        return None
