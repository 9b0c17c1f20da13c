"""Asks the node's own workflow what it knows: its images, and who has which exclusive hardware."""

import asyncio

from temporalio.client import WorkflowQueryRejectedError
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal import names
from proto.temporal.node import NodeStatus
from worker.commands.access import temporal_access
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.led_pods import ask_pod
from worker.daemon.config import NodeConfig
from worker.delivery.lead import Message, Reply


async def ask_node_status(config: NodeConfig) -> NodeStatus:
    """Ask the node's workflow, or the worker that leads it; raises CommandFailed."""
    message = Message(names.node_workflow_id(config.node_name), names.NODE_STATUS)
    answered = await ask_pod(
        config, message, lambda: _ask_workflow(config), lambda lead, said: lead.query(said, NodeStatus)
    )
    status = answered.value if isinstance(answered, Reply) else answered
    if not isinstance(status, NodeStatus):
        raise CommandFailed(f"the worker of node {config.node_name} cannot tell of the node")
    return status


async def _ask_workflow(config: NodeConfig) -> NodeStatus:
    client = await temporal_access.client_of(config)
    handle = client.get_workflow_handle(names.node_workflow_id(config.node_name))
    try:
        async with asyncio.timeout(temporal_access.ANSWER_WITHIN.total_seconds()):
            status: NodeStatus = await handle.query(names.NODE_STATUS, result_type=NodeStatus)
    except (TimeoutError, WorkflowQueryRejectedError) as error:
        raise temporal_access.NoAnswer(temporal_access.no_worker(config.node_name, error)) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise CommandFailed(
                f"node {config.node_name} has no workflow, which its poller starts; is the node's name right "
                "(--hostname-override)?",
                Exit.NOT_FOUND,
            ) from error
        raise temporal_access.NoAnswer(temporal_access.no_worker(config.node_name, error)) from error
    return status
