"""Does `tempolet debug` add an ephemeral container and print the path of its log?"""

from pathlib import Path

import pytest
from temporalio.client import Client

from proto.temporal import names
from proto.temporal.pod import PodKey
from tests.worker.commands.test_reading_commands import Commands, listed, tempolet
from tests.workflows.conftest import Node, client, node, pod_json
from worker.commands.access.exits import Exit
from worker.commands.change.debug import DebugContainer, ephemeral_container, log_of
from worker.commands.change.updates import operator
from worker.daemon.config import NodeConfig

__all__ = ["client", "node", "tempolet"]  # fixtures of other files


async def test_a_look_into_a_pod(node: Node, client: Client, tempolet: Commands) -> None:
    """What was added and its log; then history, explain and pods know of it; a second one of that name is refused."""
    name = f"default/{node.name}"
    pod = pod_json(name=node.name)
    uid = pod["metadata"]["uid"]
    handle = await node.start(pod)
    await node.until(pod, lambda one: one.ready)
    await listed(client, node, 1)
    words = ["--image", "tools:1", "--target", "web", "--name", "debug", "--env", "A=1=2", "--", "top", "--debug"]
    code, out, _ = await tempolet("debug", name, *words)
    first, second = out.splitlines()
    assert code == Exit.DONE
    await node.until(pod, lambda one: "debug" in one.containers)
    assert node.runtime.named(names.START_CONTAINER)[-1].container["command"] == ["top", "--debug"]
    assert first == f"added ephemeral container debug of tools:1 to {name}, which sees the processes of web"
    assert second == f"its log: default_{node.name}_{uid}/debug/0.log below the node's podLogsDir"
    await node.until(pod, lambda one: "running" in str(one.status.get("ephemeralContainerStatuses")))
    code, _, err = await tempolet("debug", name, *words)
    assert (code, 'spec.ephemeralContainers[1].name: Duplicate value: "debug"' in err) == (Exit.FAILED, True)
    _, out, _ = await tempolet("history", name)
    assert f"operator {operator()} added ephemeral container debug of tools:1, to see the processes of web" in out
    assert "container debug started" in out
    _, out, _ = await tempolet("explain", name)
    assert "state: Running and ready, web, debug run" in out
    assert "if debug ended now, it would not be restarted" in out
    await node.exits(handle, "web", 1)
    code, out, _ = await tempolet("debug", name, "--image", "tools:1")
    assert (code, out.startswith("added ephemeral container debugger-")) == (Exit.DONE, True)
    await node.delete(handle)


async def test_a_look_that_waits_for_its_target(node: Node, client: Client, tempolet: Commands) -> None:
    """The output says what it waits for."""
    pod = pod_json(name=node.name, initContainers=[{"name": "init", "image": "a:1", "imagePullPolicy": "IfNotPresent"}])
    handle = await node.start(pod)
    await node.until(pod, lambda one: "init" in one.containers)
    await listed(client, node, 1)
    code, out, _ = await tempolet("debug", f"default/{node.name}", "--image", "tools:1", "--target", "web")
    assert code == Exit.DONE
    assert "it starts later: unable to find target container web" in out
    await node.delete(handle)


@pytest.mark.parametrize(
    ("debug_container", "container"),
    [
        pytest.param(DebugContainer("a:1", "debug"), {"name": "debug", "image": "a:1"}, id="an-image"),
        pytest.param(
            DebugContainer("a:1", "debug", "web", ("A=", "B=c=d"), ("sh", "-c", "ps")),
            {
                "name": "debug",
                "image": "a:1",
                "command": ["sh", "-c", "ps"],
                "env": [{"name": "A", "value": ""}, {"name": "B", "value": "c=d"}],
                "targetContainerName": "web",
            },
            id="everything",
        ),
    ],
)
def test_what_is_asked(debug_container: DebugContainer, container: dict[str, object]) -> None:
    """The container as the API has it."""
    assert ephemeral_container(debug_container) == container


def test_where_it_writes(tmp_path: Path) -> None:
    """The whole path, if the pod's logs are below the known podLogsDir."""
    here, pod = NodeConfig("node-1", pod_logs_dir=tmp_path), PodKey("default", "web", "uid-1")
    assert log_of(here, pod, "debug") == "default_web_uid-1/debug/0.log below the node's podLogsDir"
    (tmp_path / "default_web_uid-1").mkdir()
    assert log_of(here, pod, "debug") == f"{tmp_path}/default_web_uid-1/debug/0.log"


def test_a_name_of_its_own() -> None:
    """Generated if none is given, and different each time."""
    made = {ephemeral_container(DebugContainer("a:1"))["name"] for _ in range(20)}
    assert len(made) == 20
    assert all(name.startswith("debugger-") and len(name) == 14 for name in made)
