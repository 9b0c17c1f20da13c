"""The worker process, wired: one Temporal worker for one node, with everything its activities stand on.

Called by `tempolet worker`. In order: the node's lock, Temporal, what an earlier worker left in flight, then work. On a
stop no new task is taken, running activities get a moment to end, containers live on.
"""

from typing import Final

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH: Final = ("proto", "workflows", "kubernetes", "pydantic", "pydantic_core", "yaml", "dateutil", "urllib3")
"""Read once a process instead of once a workflow (design §4.16): 6 ms and a megabyte each."""
WORKFLOW_TASKS: Final = 16
"""At a time: more would queue on two cores until the deadlock detector took them for stuck."""


def sandbox_runner() -> SandboxedWorkflowRunner:
    """Run workflows in the SDK's sandbox, with our own rooms passed through."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
