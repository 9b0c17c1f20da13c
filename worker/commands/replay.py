"""`tempolet replay`: do histories recorded earlier replay with this code? Used before an upgrade and by the tests.

A workflow whose history does not replay cannot continue. Takes the node's open workflows, those of its pods and its own
(`--live`), or files of exported histories (`temporal workflow show -o json`, the UI's download, or the decoded ones among
the tests), encrypted or not. Prints one result a history; the exit code says whether all replay.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

from proto.temporal.names import NODE_WORKFLOW, POD_WORKFLOW
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.temporal_access import client_of, executions, namespace_of, quoted
from worker.daemon.config import NodeConfig
from worker.host.replays.replaying import Verdict, opened, replay
from worker.temporal.executions import OPEN
from worker.temporal.keys import KeyFile


def run(config: NodeConfig, files: Sequence[Path]) -> Exit:
    """Replay files, or the node's open workflows if there are none; prints a result for each."""
    return asyncio.run(_run(config, files))


async def _run(config: NodeConfig, files: Sequence[Path]) -> Exit:
    histories = _from_files(config, files) if files else _live(config)
    verdicts = []
    async for name, history in histories:
        verdict = await replay(name, history)
        print(verdict, flush=True)
        verdicts.append(verdict)
    differing = sum(1 for one in verdicts if one.failure)
    print(f"{len(verdicts)} replayed, {differing} differ")
    return Exit.REPLAY_DIFFERS if differing else Exit.DONE


async def live(config: NodeConfig) -> list[Verdict]:
    """Replay the node's open workflows; raises CommandFailed."""
    return [await replay(name, history) async for name, history in _live(config)]


def read_history(path: Path) -> WorkflowHistory:
    """Read an exported history; raises CommandFailed naming the file."""
    try:
        content: Any = json.loads(path.read_bytes())
        workflow_id = content.get("workflowId") or _workflow_id_in(content) or path.stem
        return WorkflowHistory.from_json(workflow_id, {"events": content["events"]})
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandFailed(
            f"{path}: no exported history ({type(error).__name__}: {error}); write one with "
            "`temporal workflow show -w <workflow id> -o json`"
        ) from error


async def _from_files(config: NodeConfig, files: Sequence[Path]) -> AsyncIterator[tuple[str, WorkflowHistory]]:
    for path in files:
        yield str(path), opened(read_history(path), KeyFile(config.payload_key_file), namespace_of(config))


async def _live(config: NodeConfig) -> AsyncIterator[tuple[str, WorkflowHistory]]:
    client = await client_of(config)
    open_here = [f"PodNode = {quoted(config.node_name)}", OPEN]
    async for one in executions(client, open_here, (NODE_WORKFLOW, POD_WORKFLOW)):
        history = await client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history()
        yield one.id, opened(history, KeyFile(config.payload_key_file), client.namespace)


def _workflow_id_in(content: Any) -> str:
    started = content["events"][0].get("workflowExecutionStartedEventAttributes", {})
    return str(started.get("workflowId", ""))
