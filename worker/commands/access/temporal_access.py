"""How the reading commands reach Temporal: soon or not at all, and with payloads opened as far as the keys go."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from google.protobuf.message import Message
from temporalio.client import Client, WorkflowExecution
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError

from proto.temporal.names import NAMESPACE, POD_WORKFLOW
from worker.commands.access.exits import CommandFailed
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import temporal_settings
from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import SEALED, KeyMissing, Seal
from worker.temporal.decoded_history import payloads_in
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import connect

ANSWER_WITHIN: Final = timedelta(seconds=10)
"""A person waits; services wait for ever."""


def no_answer() -> str:
    """Say how long nobody has answered."""
    return f"no answer within {ANSWER_WITHIN.total_seconds():.0f} s"


def no_worker(node: str, error: Exception) -> str:
    """Say that nobody answers for a node, and what to do."""
    why = str(error) or (no_answer() if isinstance(error, TimeoutError) else type(error).__name__)
    return (
        f"no worker of node {node} answers ({why}), and only it knows; what runs goes on meanwhile. Start it with "
        "`tempolet up` or `systemctl start tempolet-worker`; `tempolet pods` shows the last that was known"
    )


async def client_of(config: NodeConfig) -> Client:
    """Connect; raises CommandFailed when Temporal does not answer soon."""
    told: list[str] = []
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await connect(temporal_settings(config), waiting=told.append)
    except TimeoutError:
        why = (told[-1] if told else "Temporal does not answer").removeprefix("waiting for ")
        raise CommandFailed(
            f"{why}; is it running (`tempolet up`; TEMPOLET_RUN_DIR where it has another --run-dir)? Its address is "
            "TEMPORAL_ADDRESS or temporal.address of --tempolet-config"
        ) from None
    except RPCError as error:
        raise CommandFailed(f"Temporal refuses: {error.status.name} {error.message}") from error


def namespace_of(config: NodeConfig) -> str:
    """Say which namespace payloads are sealed for, without asking Temporal."""
    settings = temporal_settings(config)
    profile = ClientConfigProfile.load(profile=settings.profile, config_source=settings.config_file)
    return settings.namespace or profile.namespace or NAMESPACE


async def executions(
    client: Client, conditions: Sequence[str], types: Sequence[str] = (POD_WORKFLOW,)
) -> AsyncIterator[WorkflowExecution]:
    """List workflows, those of pods unless told otherwise, runs of a continued one apart, oldest first; raises CommandFailed."""
    query = " AND ".join([f"WorkflowType IN ({', '.join(map(quoted, types))})", *conditions])
    try:
        found = [one async for one in client.list_workflows(query)]
    except RPCError as error:
        raise CommandFailed(
            f"Temporal cannot list pods in namespace {client.namespace}: {error.message or error.status.name}; has a "
            "worker or poller ever run against it?"
        ) from error
    for one in sorted(found, key=_began):
        yield one


def _began(execution: WorkflowExecution) -> datetime:
    return execution.start_time


def open_payloads(message: Message, config: NodeConfig, namespace: str) -> None:
    """Open in place what the node's keys open and leave the rest sealed: a story with a gap is better than none."""
    if not config.payload_key_file.exists():
        return
    seal = Seal(KeyFile(config.payload_key_file))
    for payload in list(payloads_in(message)):
        if payload.metadata.get("encoding") == SEALED:
            with contextlib.suppress(KeyMissing, PayloadRefused):
                payload.CopyFrom(seal.open(payload, namespace))


def quoted(text: str) -> str:
    """Write text into a visibility query."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
