"""Do `history` and `replay` work with real, encrypted histories of a real Temporal?"""

import asyncio
import json
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from proto.refusals import Refusal, write_refusals
from proto.temporal import names
from proto.temporal.node import NodeConfigured
from tests.patience import PATIENCE
from tests.workflows.conftest import Node, client, container, node, pod_json
from tests.workflows.test_node import Images
from worker.behaviours.commitment import Commitment
from worker.cli import run
from worker.commands.access.exits import Exit
from worker.daemon.config import NodeConfig, load_node_config
from worker.poller.calls.pod_workflows import PodWorkflows
from worker.settings.flags import Flags
from worker.temporal.signal_numbers import SignalNumbers
from worker.temporal.temporal_client import TemporalSettings
from worker.tickets.tickets import Tickets
from workflows.node import NodeWorkflow

__all__ = ["client", "node"]  # fixtures of the workflows' room


@dataclass
class Commands:
    """Runs the command line against the test's Temporal."""

    own_config: Path
    capsys: pytest.CaptureFixture[str]

    async def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, output and errors; in a thread, for a command has an event loop of its own."""
        options = ["--tempolet-config", str(self.own_config)]
        command, *more = words
        code = await asyncio.to_thread(run, [command, *options, *more])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def config(self) -> NodeConfig:
        """Return the configuration that the commands use."""
        return load_node_config(Flags(tempolet_config=self.own_config))


@pytest.fixture
def tempolet(settings: TemporalSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    """Write a configuration for the test's Temporal and key file."""
    path = tmp_path / "tempolet.yaml"
    keys = {"address": settings.address, "payloadKeyFile": str(settings.key_file)}
    kind = {"apiVersion": "tempolet.dev/v1alpha1", "kind": "TempoletConfiguration"}
    path.write_text(json.dumps({**kind, "temporal": keys}))
    return Commands(path, capsys)


async def listed(client: Client, node: Node, count: int) -> None:
    """Wait until Temporal's visibility knows the node's pods, which comes a moment after their start."""
    async with asyncio.timeout(PATIENCE):
        while (await client.count_workflows(f"PodNode = '{node.name}'")).count < count:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.1)


async def test_the_story_of_a_pod_that_is_gone(node: Node, client: Client, tempolet: Commands) -> None:
    """A crash, a failing pull and the deletion, in words."""
    pod = pod_json(name=node.name)
    error = ApplicationError("busybox:1: not found", type="ErrImagePull", non_retryable=True)
    node.runtime.failing[names.PULL_IMAGE] = [error]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await node.exits(handle, "web", 1)
    await node.until(pod, lambda one: one.ready and one.restarts == 1)
    await node.delete(handle)
    await listed(client, node, 1)
    code, out, err = await tempolet("history", f"default/{node.name}")
    assert (code, err) == (Exit.DONE, "")
    selector = [
        f"default/{node.name} on {node.name}, UID {pod['metadata']['uid']}, gone after",
        "manifest web.yaml listed",
        "image busybox:1 (IfNotPresent) failed after",
        ": ErrImagePull: busybox:1: not found",
        "container web started (",
        "container web ended: exit 1 Error after",
        "container web started, restart 1",
        "deletion requested by file: ManifestRemoved: web.yaml is gone",
        "the pod is gone: ",
    ]
    places = [out.find(text) for text in selector]
    assert -1 not in places
    assert places == sorted(places)
    assert "sandbox attempt 0 ready in" in out  # before or after the image: they are asked for side by side


async def test_the_newest_pod_of_a_name_one_by_uid_or_all(node: Node, client: Client, tempolet: Commands) -> None:
    """A pod that was created again has another UID and a history of its own."""
    pods = [pod_json(name=node.name) for _ in range(2)]
    for pod in pods:
        handle = await node.start(pod)
        await node.until(pod, lambda one: one.ready)
        await node.delete(handle)
    await listed(client, node, 2)
    old, new = (pod["metadata"]["uid"] for pod in pods)
    asked = ("history", f"default/{node.name}", "-o", "json")
    here = ("--hostname-override", node.name)
    for more, expected in (((), [new]), (("--uid", old[:8]), [old]), (("--all", *here), [old, new])):
        code, out, _ = await tempolet(*asked, *more)
        assert (code, [life["uid"] for life in json.loads(out)]) == (Exit.DONE, expected)
    code, _, err = await tempolet(*asked, "--uid", "nope")
    assert code == Exit.NOT_FOUND
    assert f"known UIDs: {old}, {new}" in err
    code, _, err = await tempolet(*asked, "--hostname-override", "elsewhere")
    assert (code, "there is and was no pod" in err) == (Exit.NOT_FOUND, True)


async def test_what_a_pod_waits_for_now(node: Node, client: Client, tempolet: Commands) -> None:
    """An open pod's story ends with what is under way, and its tries."""
    pod = pod_json(name=node.name)
    away = ApplicationError("no container runtime answers", type="RuntimeUnavailable")
    node.runtime.failing[names.RUN_POD_SANDBOX] = [away] * 1000
    handle = await node.start(pod)
    await listed(client, node, 1)
    async with asyncio.timeout(PATIENCE):
        while True:
            code, out, _ = await tempolet("history", f"default/{node.name}")
            last = out.strip().splitlines()[-1]
            if code == Exit.DONE and "(try " in last:
                break
    assert last.startswith("now: sandbox attempt 0 under way for")
    assert "after RuntimeUnavailable: no container runtime answers)" in last
    node.runtime.failing[names.RUN_POD_SANDBOX] = []
    await node.delete(handle)


async def test_a_pod_that_never_was(node: Node, client: Client, tempolet: Commands) -> None:  # noqa: ARG001 - prepares
    """Not found is an exit code of its own."""
    code, out, err = await tempolet("history", f"default/{node.name}")
    assert (code, out) == (Exit.NOT_FOUND, "")
    assert f"there is and was no pod default/{node.name}" in err


@pytest.mark.parametrize("word", ["history", "explain"])
async def test_a_name_without_the_node_s(word: str, node: Node, client: Client, tempolet: Commands) -> None:
    """The message names the pod that exists."""
    pod = pod_json(name=f"web-{node.name}")
    handle = await node.start(pod)
    await listed(client, node, 1)
    code, out, err = await tempolet(word, "default/web", "--hostname-override", node.name)
    assert (code, out) == (Exit.NOT_FOUND, "")
    named = f"the name of a static pod ends with its node's name: default/web-{node.name}\n"
    assert err == f"tempolet: there is and was no pod default/web; {named}"
    await node.delete(handle)


async def test_a_refused_manifest(node: Node, client: Client, tempolet: Commands, tmp_path: Path) -> None:
    """Reported alone, and after the history of the pod that keeps running."""
    root = tmp_path / "root"
    root.mkdir()
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await listed(client, node, 1)
    kept = Refusal("/m/kept.yaml", "InvalidPod", "spec: no", "then", f"default/{node.name}", pod_kept=True)
    write_refusals(root, [Refusal("/m/new.yaml", "InvalidPod", "spec: wrong", "then", "default/new"), kept])
    here = ("--root-dir", str(root))
    code, out, err = await tempolet("history", "default/new", *here)
    assert (code, out) == (Exit.NOT_FOUND, "")
    assert err == "tempolet: there is and was no pod default/new; refused /m/new.yaml: InvalidPod: spec: wrong\n"
    code, out, _ = await tempolet("history", f"default/{node.name}", *here)
    last = f"refused /m/kept.yaml: InvalidPod: spec: no (default/{node.name} continues with the last valid version)"
    assert (code, out.splitlines()[-1]) == (Exit.DONE, last)
    await node.delete(handle)


async def test_live_and_exported_histories_fit_this_code(
    node: Node, client: Client, tempolet: Commands, tmp_path: Path
) -> None:
    """Open pods from Temporal, and an encrypted export from a file."""
    pod = pod_json(name=node.name, initContainers=[container("a")])
    node.runtime.exits_at_once["a"] = [0]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    code, out, _ = await tempolet("replay", "--live", "--hostname-override", node.name)
    assert (code, out.splitlines()[-1]) == (Exit.DONE, "1 replayed, 0 differ")
    assert f"fits    pod/{node.name}/default/{node.name}/" in out
    exported = tmp_path / "sealed.json"
    exported.write_text((await handle.fetch_history()).to_json())
    code, out, _ = await tempolet("replay", str(exported))
    assert (code, out.splitlines()[0].split(" (")[0]) == (Exit.DONE, f"fits    {exported}")
    await node.delete(handle)


async def test_the_node_s_own_workflow_is_replayed_with_its_pods(
    client: Client, tempolet: Commands, tmp_path: Path
) -> None:
    """It is found by the attribute that the poller starts it with."""
    name, images = f"n{uuid.uuid4().hex[:8]}", Images()
    async with Worker(
        client,
        task_queue=names.node_task_queue(name),
        workflows=[NodeWorkflow],
        activities=[images.watch_images, images.prepull_image],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        await PodWorkflows(
            client, name, SignalNumbers(), Commitment(tmp_path), tickets=Tickets(tmp_path)
        ).configure_node(NodeConfigured(prepull=("busybox:1",)))
        await images.until(lambda: "busybox:1" in images.sizes)
        async with asyncio.timeout(60):
            while not (await client.count_workflows(f"PodNode = '{name}'")).count:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.1)
        code, out, _ = await tempolet("replay", "--live", "--hostname-override", name)
        await client.get_workflow_handle(names.node_workflow_id(name)).terminate()
    assert (code, out.splitlines()[-1]) == (Exit.DONE, "1 replayed, 0 differ")
    assert f"fits    node/{name} (" in out


async def test_a_history_of_another_behaviour_differs(node: Node, tempolet: Commands, tmp_path: Path) -> None:
    """A verdict a history and an exit code that a script can ask."""
    pod = pod_json(name=node.name)
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    exported = json.loads((await handle.fetch_history()).to_json())
    for event in exported["events"]:
        asked = event.get("activityTaskScheduledEventAttributes")
        if asked and asked["activityType"]["name"] == names.RUN_POD_SANDBOX:
            asked["activityType"]["name"] = names.STOP_POD_SANDBOX
    path = tmp_path / "other.json"
    path.write_text(json.dumps(exported))
    code, out, _ = await tempolet("replay", str(path))
    assert code == Exit.REPLAY_DIFFERS
    assert out.startswith(f"DIFFERS {path}")
    assert out.splitlines()[-1] == "1 replayed, 1 differ"
    await node.delete(handle)
