"""Runs commands as an operator of the node under test.

The commands run in the test's own process: starting Python and importing Temporal for each took a second of CPU time.
`tests/worker/commands/test_cli.py` starts them as programs.
"""

import asyncio
import contextlib
import io
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from temporalio.service import RPCError

from proto.pod_snapshot import PodSnapshot
from proto.temporal.names import ADD_EPHEMERAL_CONTAINER, NAMESPACE
from proto.temporal.operator import AddEphemeralContainer, EphemeralContainerAdded
from tests.node.tempolet_node import TempoletNode
from worker.cli import run
from worker.standalone.machine import programs
from worker.temporal.executions import describe_execution


def tempolet(node: TempoletNode, command: str, *words: str) -> tuple[int, str]:
    """Run a command as an operator of this node; returns the exit code and the output, stdout and stderr together."""
    options = ["--tempolet-config", str(node.directory / "tempolet.json"), "--root-dir", str(node.root_dir)]
    out, err = _text(), _text()
    with _operators_environment(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([command, *options, "--hostname-override", node.name, *words])
    return code, _written(out) + _written(err)


def history(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return the output of `tempolet history` for a pod."""
    code, said = tempolet(node, "history", f"{snapshot.namespace}/{snapshot.name}")
    assert code == 0, said
    return said


def temporal(node: TempoletNode, workflow_id: str, *words: str) -> None:
    """Run `temporal workflow` as an operator."""
    program = programs.find_program(programs.TEMPORAL)
    place = ["--address", node.temporal.address, "--namespace", NAMESPACE, "--workflow-id", workflow_id]
    ran = subprocess.run([program, "workflow", *words, *place], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def described(node: TempoletNode, workflow_id: str) -> tuple[str, int]:
    """Return run id and status of a workflow's newest run; empty if there is none."""

    async def ask() -> tuple[str, int]:
        with contextlib.suppress(RPCError):
            info = (await describe_execution(await node.client(), workflow_id)).workflow_execution_info
            return info.execution.run_id, int(info.status)
        return "", 0

    return asyncio.run(ask())


async def look_in(node: TempoletNode, snapshot: PodSnapshot, container: dict[str, Any]) -> EphemeralContainerAdded:
    """Add an ephemeral container to a pod, as an operator."""
    handle = await node.workflow(snapshot)
    asked = AddEphemeralContainer("root@node-1", container)
    added: EphemeralContainerAdded = await handle.execute_update(
        ADD_EPHEMERAL_CONTAINER, asked, result_type=EphemeralContainerAdded
    )
    return added


def _text() -> io.TextIOWrapper:
    """Give a text stream over bytes, as stdout is: `tempolet logs` writes bytes."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _operators_environment() -> Iterator[None]:
    """Unset the variables that name another Temporal while the block runs, and set the time zone to UTC."""
    before = dict(os.environ)
    os.environ.update({"TZ": "UTC"})
    for key in before:
        if key.startswith("TEMPORAL_"):
            del os.environ[key]
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
