"""Is a hook's command run in a container of its own that is removed afterwards, also when calls are repeated or late?"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.hooks.hook_containers import HookContainers, hook_labels
from activities.hooks.hooks import HookActivities
from proto.cri.ownership import HOOK_LABEL
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.requests import PodSandbox, RunHook
from proto.temporal.hooks import Hook, HookEnded
from proto.temporal.pod import PodKey
from tests.node.acting import Acting, start_request
from tests.node.tempolet_node import PATIENCE


def request(pod: PodKey, sandbox: PodSandbox, script: str) -> RunHook:
    """Request a preStart hook of `web` that runs a script."""
    command = ["sh", "-c", script]
    helper = start_request(pod, sandbox, command=command)
    container = {"name": "web", "image": helper.image_ref, "command": command}
    return RunHook(
        pod,
        "web",
        "",
        Hook.PRE_START,
        {"exec": {"command": command}},
        sandbox_id=sandbox.sandbox_id,
        helper=replace(helper, container=container),
    )


async def helpers(acting: Acting, asked: RunHook) -> list[cri.Container]:
    """List the hook's containers."""
    return list(await acting.services.runtime.list_containers(hook_labels(asked)))


async def test_it_runs_twice_and_leaves_nothing(acting: Acting) -> None:
    """Each run has its own exit; no reader of the pod ever sees the container."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    asked = request(pod, sandbox, "echo hello; exit 3")
    hooks = HookActivities(acting.services)
    for _ in range(2):
        ended = await acting.run(hooks.run_hook, asked)
        assert ended == HookEnded(succeeded=False, message="exit code 3: hello")
        assert await helpers(acting, asked) == []
    log = acting.services.paths(pod).container_logs("web") / "preStart.0.log"
    assert log.read_text().count("hello") == 2


async def test_what_a_killed_worker_left_is_removed_first(acting: Acting) -> None:
    """Both a created and a running container: it neither blocks the next run nor counts as the pod's."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    asked = request(pod, sandbox, "sleep 1000")
    task = asyncio.create_task(acting.run(HookActivities(acting.services).run_hook, asked))
    async with asyncio.timeout(PATIENCE):
        while not [one for one in await helpers(acting, asked) if one.state == cri.CONTAINER_RUNNING]:  # noqa: ASYNC110 - another process runs it
            await asyncio.sleep(0.02)
    (before,) = await helpers(acting, asked)
    assert dict(before.labels)[HOOK_LABEL] == "preStart"
    assert (await acting.read(pod)).containers == ()
    quick = request(pod, sandbox, "true")
    assert quick.helper
    await HookContainers(acting.services).get_ready(quick, quick.helper)
    assert await helpers(acting, asked) == []
    assert await acting.run(HookActivities(acting.services).run_hook, quick) == HookEnded(succeeded=True)
    assert not (await task).succeeded


async def test_it_comes_late(acting: Acting) -> None:
    """Its sandbox is gone: the hook fails, and nothing is created."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    asked = request(pod, sandbox, "true")
    await acting.services.runtime.stop_pod_sandbox(sandbox.sandbox_id)
    await acting.services.runtime.remove_pod_sandbox(sandbox.sandbox_id)
    ended = await acting.run(HookActivities(acting.services).run_hook, asked)
    assert not ended.succeeded
    assert await helpers(acting, asked) == []


async def test_a_runtime_that_is_away_is_no_failure_of_the_hook(acting: Acting, tmp_path: Path) -> None:
    """Temporal retries, whatever the hook's policy."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    asked = request(pod, sandbox, "true")
    away = RuntimeClient(f"unix://{tmp_path}/away.sock", StartLimit(1))
    with pytest.raises(ApplicationError) as retryable:
        await acting.run(HookActivities(replace(acting.services, runtime=away)).run_hook, asked)
    assert retryable.value.type == "RuntimeUnavailable"
    await away.close()
