"""The runs of a workflow, which are continued as new one after the other."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowHandle, WorkflowHistory

from tests.patience import PATIENCE


async def run_of(handle: WorkflowHandle[Any, Any]) -> str:
    """Return the ID of the newest run."""
    return str((await handle.describe()).run_id)


async def until_another(client: Client, workflow_id: str, run_id: str) -> str:
    """Wait until a run has been continued as new; returns the new run."""
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    with pytest.raises(WorkflowContinuedAsNewError) as ended:
        await asyncio.wait_for(run.result(follow_runs=False), PATIENCE)
    return ended.value.new_execution_run_id


async def history_of(client: Client, workflow_id: str, run_id: str) -> WorkflowHistory:
    """Read one run."""
    return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
