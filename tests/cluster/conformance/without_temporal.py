"""`make conformance ARGS=--without-temporal`: the official tests with Temporal ended the whole time, and the pods' stories afterwards.

Temporal is ended before the first test, and started after the last one. Once every pod was handed back, the history of each
pod that the API server had shown as taken by the node must tell its life: it began, each start of a container, and its end.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from temporalio.client import Client

from proto.temporal.names import NAMESPACE, POD_WORKFLOW, PodWorkflowId
from tests.cluster.api import Api
from tests.cluster.conformance.pod_ledger import SeenPod
from tests.node.away.led_pods import led_pods
from worker.history.story import build_story
from worker.standalone.settings import Settings
from worker.temporal.codec import PayloadCipher
from worker.temporal.decoded_history import decode_history
from worker.temporal.executions import list_executions
from worker.temporal.keys import KeyFile
from worker.temporal.temporal_client import TemporalSettings, connect

NO_PROGRESS_WITHIN: Final = 300.0
"""Seconds in which at least one more pod is handed back."""
DELETED_WITHIN: Final = 300.0
"""The tests do not wait until their namespaces are gone."""
CLOSED_WITHIN: Final = 60.0
"""For workflows whose pods have just gone, and for what lists them."""
LOOK_AGAIN: Final = 1.0
STARTED: Final = re.compile(r"container (\S+) started")
INCOMPLETE: Final = ("entries are missing here", "more entries had no room")
GONE: Final = "the pod is gone"
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class Stories:
    """What the histories tell of the pods that lived."""

    lived: int
    whole: int
    wrong: tuple[str, ...]
    """What is missing, a line for each pod."""

    def lines(self) -> list[str]:
        """Return the lines of the report."""
        return [
            *self.wrong,
            f"{self.lived} pods lived without Temporal; the histories of {self.whole} tell their whole story",
        ]


class NotHandedBack(Exception):
    """Pods were not handed back to Temporal; says how many."""


def until_no_pods(api: Api, node: str) -> None:
    """Wait until the tests' pods are deleted; what is left then is missing its end in the report."""
    deadline = time.monotonic() + DELETED_WITHIN
    while api.get(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")["items"] and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN)


def until_handed_back(settings: Settings) -> int:
    """Wait until the worker leads no pod any more; returns how many it led at first. Raises NotHandedBack."""
    first, fewest, deadline = -1, 1 << 31, time.monotonic() + NO_PROGRESS_WITHIN
    while True:
        led = led_pods(settings.root_dir)
        if led is not None:
            first = len(led) if first < 0 else first
            if not led:
                return first
            if len(led) < fewest:
                fewest, deadline = len(led), time.monotonic() + NO_PROGRESS_WITHIN
        if time.monotonic() > deadline:
            left = "the worker does not answer" if led is None else f"{len(led)} pods left, {min(led)} the first"
            raise NotHandedBack(f"no pod was handed back for {NO_PROGRESS_WITHIN:g} s: {left}; see worker.log")
        time.sleep(LOOK_AGAIN)


def judge(pods: Sequence[SeenPod], stories: Mapping[str, Sequence[str]]) -> Stories:
    """Compare the pods that lived with the lines of their histories, by UID."""
    wrong = {pod.uid: why for pod in pods if (why := _missing(pod, stories.get(pod.uid, ())))}
    lines = [f"{pod.name} (UID {pod.uid}): {wrong[pod.uid]}" for pod in pods if pod.uid in wrong]
    return Stories(len(pods), len(pods) - len(wrong), tuple(lines) if pods else ("the API server showed no pod",))


def find_stories(settings: Settings, pods: Sequence[SeenPod]) -> Stories:
    """Judge the histories of these pods, once nothing more is missing, or after a minute."""
    deadline = time.monotonic() + CLOSED_WITHIN
    while True:
        found = judge(pods, asyncio.run(_read_stories(settings)))
        if not found.wrong or time.monotonic() > deadline:
            return found
        time.sleep(LOOK_AGAIN)


def _missing(pod: SeenPod, texts: Sequence[str]) -> str:
    """Say what a history does not tell of a pod; empty if it tells everything."""
    if not texts:
        return "no history"
    if remark := next((text for text in texts if any(one in text for one in INCOMPLETE)), ""):
        return remark
    started = [found[1] for text in texts if (found := STARTED.match(text))]
    for container, starts in pod.starts.items():
        if started.count(container) < starts:
            return f"{starts} starts of {container}, {started.count(container)} told"
    return "" if any(text.startswith(GONE) for text in texts) else "its end is not told"


async def _read_stories(settings: Settings) -> dict[str, list[str]]:
    address = settings.temporal.address
    client = await connect(TemporalSettings(key_file=settings.key_file, address=address, environment={}))
    cipher, turns = PayloadCipher(KeyFile(settings.key_file)), asyncio.Semaphore(AT_ONCE)
    runs: dict[str, list[tuple[object, str]]] = {}
    async for one in list_executions(client, f"WorkflowType = '{POD_WORKFLOW}'"):
        runs.setdefault(one.id, []).append((one.start_time, one.run_id))

    async def read(workflow_id: str) -> tuple[str, list[str]]:
        async with turns:
            return PodWorkflowId.parse(workflow_id).uid, await _texts(
                client, cipher, workflow_id, [run for _, run in sorted(runs[workflow_id])]
            )

    return dict(await asyncio.gather(*map(read, runs)))


async def _texts(client: Client, cipher: PayloadCipher, workflow_id: str, run_ids: Sequence[str]) -> list[str]:
    handles = [client.get_workflow_handle(workflow_id, run_id=one) for one in run_ids]
    events = [decode_history(await one.fetch_history(), cipher, NAMESPACE).events for one in handles]
    return [line.text for line in build_story(events).lines]
