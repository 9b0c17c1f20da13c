"""Asks whoever leads a pod, or the node's images: the workflow in Temporal, or this node's worker while Temporal is away.

Used by the commands. The worker says first whether it leads the pod; otherwise Temporal is asked, and the worker
again if Temporal does not answer.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from proto.pod_snapshot import read_snapshots
from worker.commands.access.exits import CommandFailed
from worker.commands.access.pod_selection import PodSelector
from worker.commands.access.temporal_access import NoAnswer
from worker.daemon.config import NodeConfig
from worker.delivery.client import SocketLead
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Lead, LeadUnavailable, Message, NameTaken, Reply
from worker.delivery.server import socket_path

Answered = TypeVar("Answered")
Request = Callable[[Lead, Message], Awaitable[Reply]]


async def ask_pod(
    config: NodeConfig, message: Message, call: Callable[[], Awaitable[Answered]], request: Request
) -> Answered | Reply:
    """Return what the call to Temporal returns, or the worker's reply to the request if it leads the pod.

    A message without a workflow id is about a pod that is not on this node. Raises what the call raises, and CommandFailed.
    """
    if not message.workflow_id:
        return await call()
    lead = worker_of(config)
    deliveries = Deliveries(lead, lambda error: isinstance(error, NoAnswer))
    with contextlib.suppress(LeadUnavailable):
        deliveries.take(replace(await lead.leads(""), name_unsure=False))  # then Temporal is asked, which says it
    try:
        return await deliveries.ask(message, call, lambda said: request(lead, said))
    except NameTaken as error:
        raise CommandFailed(str(error)) from error
    except LeadUnavailable as error:
        raise CommandFailed(
            f"Temporal is away, and the worker, which leads the pod, does not answer: {error}"
        ) from error


def pod_here(config: NodeConfig, selector: PodSelector) -> str:
    """Return the workflow id of the newest such pod on this node, by its snapshot; empty if there is none."""
    found = [
        one
        for one in read_snapshots(config.root_dir)
        if (one.namespace, one.name) == (selector.namespace, selector.name)
        and one.uid.startswith(selector.uid or "")
        and selector.node in (None, one.node)
    ]
    return max(found, key=lambda one: one.started_at).workflow_id if found else ""


def worker_of(config: NodeConfig) -> Lead:
    """Return this node's worker."""
    from worker.payloads.receiving import ReceivingConverter

    return SocketLead(socket_path(config.state_dir), ReceivingConverter())
