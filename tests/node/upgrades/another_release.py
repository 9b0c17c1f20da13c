"""A release whose pods wait a moment before they begin, so that today's code does not replay their histories.

Run as a module, with the arguments of `tempolet`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow

from worker.host.replays import build
from workflows.loops.pod_loop import PodLoop


def main() -> None:
    """Run this release; its build is another one."""
    build.digest = lambda: "a" * 64  # type: ignore[assignment]  # before it is imported by name
    setattr(PodLoop, "run", late(PodLoop.run))  # noqa: B010 - mypy knows that it is a method
    from worker.cli import main as cli  # noqa: PLC0415 - once everything is replaced

    cli()


def late(run: Callable[[PodLoop], Coroutine[Any, Any, Any]]) -> Callable[[PodLoop], Coroutine[Any, Any, Any]]:
    """Wait before the loop runs."""

    async def waiting(loop: PodLoop) -> Any:
        await (workflow.sleep(timedelta(milliseconds=10)) if workflow.in_workflow() else asyncio.sleep(0.01))
        return await run(loop)

    return waiting


if __name__ == "__main__":
    main()
