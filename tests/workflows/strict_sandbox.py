"""Temporal's sandbox, which loads `workflows` itself, so that a clock, a random number or a file access of our code fails the task.

The worker runs without it, and so do other tests: with `workflows` passed through it would check next to nothing.
"""

from typing import Final

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH: Final = ("proto", "kubernetes", "pydantic", "pydantic_core", "yaml", "dateutil", "urllib3")
"""Modules imported once a process instead of once a workflow."""


def strict_sandbox() -> SandboxedWorkflowRunner:
    """Return the sandbox."""
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
