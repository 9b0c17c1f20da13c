"""How a life is run and its histories are written, for manifests' pods here and for the API's pods in tests/cluster."""

import asyncio
import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from temporalio.client import WorkflowHistory, WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from proto.temporal.names import NAMESPACE, POD_WORKFLOW
from tests.node.tempolet_node import TempoletNode
from worker.payloads.refused import PayloadRefused
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.keys import KeyFile
from workflows.decide.versions import CURRENT

NODE: Final = "recorded"
HISTORIES: Final = Path(__file__).parents[2] / "replay" / "histories"
QUICK: Final[dict[str, Any]] = {
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
}
"""Keys that keep a crash loop short."""
_PLACE: Final = Path("/tmp/tempolet-record")  # a fixed name, as it is in every recorded start


@contextlib.contextmanager
def place_of(life: str) -> Iterator[Path]:
    """Return a folder for a life."""
    path = _PLACE / life
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):  # another session records another life there
            _PLACE.rmdir()


def write(node: TempoletNode, life: str) -> None:
    """Write every run of every pod of this node, once all have closed; visibility may lag behind."""
    HISTORIES.mkdir(exist_ok=True)
    mine = node.until(lambda: asyncio.run(_ended_runs(node)), "the pod's workflow listed")
    for number, history in enumerate(mine):
        suffix = f"-{number + 1}" if len(mine) > 1 else ""
        write_file(HISTORIES / f"v{CURRENT}-{life}{suffix}.json", history)


def write_file(path: Path, history: WorkflowHistory) -> None:
    """Write one history with decrypted payloads."""
    content = {"workflowId": history.workflow_id, **without_traces(json.loads(history.to_json()))}
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def without_traces(told: Any) -> Any:
    """Remove stack traces: a replay does not need them, and they contain paths of this machine."""
    if isinstance(told, list):
        return [without_traces(one) for one in told]
    if not isinstance(told, dict):
        return told
    kept = {name: without_traces(value) for name, value in told.items() if name != "stackTrace"}
    if failure := kept.get("encodedAttributes"):
        said = {**json.loads(base64.b64decode(failure["data"])), "stack_trace": ""}
        failure["data"] = base64.b64encode(json.dumps(said, separators=(",", ":")).encode()).decode()
    return kept


async def _ended_runs(node: TempoletNode) -> list[WorkflowHistory]:
    client = await node.client()
    cipher = PayloadCipher(KeyFile(node.temporal_settings().key_file))
    runs = [one async for one in client.list_workflows(f"PodNode = '{NODE}' AND WorkflowType = '{POD_WORKFLOW}'")]
    mine = []
    for one in sorted(runs, key=lambda run: run.start_time):
        handle = client.get_workflow_handle(one.id, run_id=one.run_id)
        try:
            started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
            cipher.decrypt(started.input.payloads[0], NAMESPACE, one.id)
        except (PayloadRefused, RPCError):
            continue  # another life's, as each node has its own key; or it was deleted
        end = WorkflowHistoryEventFilterType.CLOSE_EVENT
        _ = [event async for event in handle.fetch_history_events(wait_new_event=True, event_filter_type=end)]
        mine.append(decode_history(await handle.fetch_history(), cipher, NAMESPACE))
    return mine
