"""How commands connect to Temporal: with a short timeout, and payloads decrypted as far as the node's keys allow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from google.protobuf.message import Message
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError

from proto.temporal.names import NAMESPACE, POD_WORKFLOW
from worker.commands.access.exits import CommandFailed
from worker.daemon.config import NodeConfig
from worker.daemon.node_client import temporal_settings
from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import ENCRYPTED, PayloadCipher
from worker.temporal.connect_errors import TemporalRefuses
from worker.temporal.decoded_history import payloads_in
from worker.temporal.executions import Execution, list_executions
from worker.temporal.keys import KeyFile, KeyMissing
from worker.temporal.temporal_client import connect

ANSWER_WITHIN: Final = timedelta(seconds=10)
"""Commands time out after this; services wait for ever."""


class NoAnswer(CommandFailed):
    """Neither Temporal nor a worker behind it answers; the node's own worker may."""


def no_answer() -> str:
    """Say that the timeout has passed."""
    return f"no answer within {ANSWER_WITHIN.total_seconds():.0f} s"


def no_worker(node: str, error: Exception) -> str:
    """Say that no worker of a node answers, and what to do."""
    why = str(error) or (no_answer() if isinstance(error, TimeoutError) else type(error).__name__)
    return (
        f"no worker of node {node} answers ({why}); running containers are not affected. Start it with "
        "`tempolet up` or `systemctl start tempolet-worker`; `tempolet pods` shows the last known state"
    )


async def client_of(config: NodeConfig) -> Client:
    """Connect; raises NoAnswer if Temporal does not answer in time, CommandFailed if it refuses, and TemporalMisconfigured."""
    waited_for: list[str] = []
    try:
        async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
            return await connect(temporal_settings(config), waiting=waited_for.append)
    except TimeoutError:
        why = (waited_for[-1] if waited_for else "Temporal does not answer").removeprefix("waiting for ")
        raise NoAnswer(
            f"{why}; is it running (`tempolet up`; TEMPOLET_RUN_DIR where it has another --run-dir)? Its address is "
            "TEMPORAL_ADDRESS or temporal.address of --tempolet-config"
        ) from None
    except TemporalRefuses as error:
        raise CommandFailed(str(error)) from error


def namespace_of(config: NodeConfig) -> str:
    """Return the namespace that payloads are encrypted for, without asking Temporal."""
    settings = temporal_settings(config)
    profile = ClientConfigProfile.load(profile=settings.profile, config_source=settings.config_file)
    return settings.namespace or profile.namespace or NAMESPACE


async def executions(
    client: Client, conditions: Sequence[str], types: Sequence[str] = (POD_WORKFLOW,)
) -> AsyncIterator[Execution]:
    """List workflows, by default those of pods, each run by itself, oldest first; raises CommandFailed."""
    query = " AND ".join([f"WorkflowType IN ({', '.join(map(quoted, types))})", *conditions])
    try:
        found = [one async for one in list_executions(client, query)]
    except RPCError as error:
        raise NoAnswer(
            f"Temporal cannot list pods in namespace {client.namespace}: {error.message or error.status.name}; has a "
            "worker or poller ever run against it?"
        ) from error
    for one in sorted(found, key=_began):
        yield one


def _began(execution: Execution) -> datetime:
    return execution.start_time


def decrypt_payloads(message: Message, config: NodeConfig, namespace: str) -> None:
    """Decrypt payloads in place where the node's keys allow; a history with gaps is better than none."""
    if not config.payload_key_file.exists():
        return
    cipher = PayloadCipher(KeyFile(config.payload_key_file))
    for payload in list(payloads_in(message)):
        if payload.metadata.get("encoding") == ENCRYPTED:
            with contextlib.suppress(KeyMissing, PayloadRefused):
                payload.CopyFrom(cipher.decrypt(payload, namespace))


def quoted(text: str) -> str:
    """Quote text for a visibility query."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
