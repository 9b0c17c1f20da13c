"""Are images, directories and cgroups created and removed, and does all survive a restart of containerd or of the worker?"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.sandbox.sandbox import prepare_sandbox
from proto.temporal.activities.requests import MakePodDirectories, PullImage, RemovePodDirectories
from proto.temporal.pod import ContainerState, PodKey
from tests.node.acting import BUSYBOX, Acting, sandbox_spec, start_request, stop_request
from worker.standalone.containerd import Containerd


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.06, 0.1])
async def test_a_killed_workers_calls_leave_one_of_each(acting: Acting, containerd: Containerd, moment: float) -> None:
    """Its sandbox and its start are adopted, waited for or repeated; none counts as a crash."""
    pod = acting.pod()
    await acting.run(acting.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    config = (await asyncio.to_thread(prepare_sandbox, acting.services, pod, sandbox_spec(pod), 0)).config
    async with killed_worker(containerd, moment) as killed:
        await killed.run_pod_sandbox(config)
    sandbox = await acting.sandbox(pod)
    request = start_request(pod, sandbox)
    container_id = (await acting.containers._create(request, 0)).container_id
    async with killed_worker(containerd, moment) as killed:
        await killed.start_container(container_id)
    web = await acting.run(acting.containers.start_container, request)
    assert (web.state, web.attempt) == (ContainerState.RUNNING, 0)
    found = await acting.read(pod)
    assert [one.ready for one in found.sandboxes] == [True]
    assert [one.container_id for one in found.containers] == [web.container_id]


async def test_images_follow_their_policy(acting: Acting) -> None:
    """A present image is not pulled, Never never pulls, a bad name and an unreachable registry have the kubelet's reasons."""
    pod = acting.pod()
    present = await acting.run(acting.images.pull_image, PullImage(pod, BUSYBOX, "IfNotPresent"))
    assert present.present
    assert present.image_ref.startswith("sha256:")
    assert present.size_bytes > 0
    for image, policy, reason in (
        ("localhost:1/none", "Never", "ErrImageNeverPull"),
        ("docker.io/UPPER", "Always", "InvalidImageName"),
        ("localhost:1/none", "IfNotPresent", "ErrImagePull"),
    ):
        with pytest.raises(ApplicationError) as refused:
            await acting.run(acting.images.pull_image, PullImage(pod, image, policy))
        assert (refused.value.type, refused.value.non_retryable) == (reason, True)


async def test_directories_and_cgroup_come_and_go(acting: Acting) -> None:
    """Both calls may be repeated; a process left in the pod's cgroup is killed with it."""
    pod = acting.pod()
    make = MakePodDirectories(pod, ("web",))
    for _ in range(2):
        await acting.run(acting.directories.make_pod_directories, make)
    await acting.sandbox(pod)
    paths = acting.services.paths(pod)
    assert paths.directory.stat().st_mode & 0o777 == 0o750
    assert paths.container_logs("web").is_dir()
    sandboxes = (await acting.read(pod)).sandboxes
    await acting.services.runtime.remove_pod_sandbox(sandboxes[0].sandbox_id)
    cgroup = _memory_cgroup(acting, pod)
    straggler = await asyncio.create_subprocess_exec("sleep", "1000")
    (cgroup / "cgroup.procs").write_text(str(straggler.pid))
    for _ in range(2):
        await acting.run(acting.directories.remove_pod_directories, RemovePodDirectories(pod, "BestEffort"))
    assert await straggler.wait() == -signal.SIGKILL
    assert not cgroup.exists()
    assert not paths.directory.exists()
    assert not paths.logs.exists()


async def test_a_restarted_containerd_is_found_within_a_second(acting: Acting, containerd: Containerd) -> None:
    """While it is down, the error says what to do and Temporal retries; once it is back, everything is found again."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    web = await acting.start(pod, sandbox)
    containerd.process.stop(within=10)
    with pytest.raises(ApplicationError, match=str(containerd.socket)) as away:
        await acting.read(pod)
    assert (away.value.type, away.value.non_retryable) == ("RuntimeUnavailable", False)
    await asyncio.to_thread(containerd.start)
    for _ in range(10):
        try:
            again = await acting.sandbox(pod)
            break
        except ApplicationError:
            await asyncio.sleep(0.1)
    assert (again.sandbox_id, again.adopted) == (sandbox.sandbox_id, True)
    assert (await acting.start(pod, sandbox)).container_id == web.container_id


async def test_a_stop_survives_a_restart_of_containerd(acting: Acting, containerd: Containerd) -> None:
    """The retry after the lost connection continues with the remaining grace period."""
    pod = acting.pod()
    deaf = ["sh", "-c", "trap '' TERM; echo up; while true; do sleep 1; done"]
    web = await acting.start(pod, await acting.sandbox(pod), command=deaf)
    await acting.said(pod, "up")
    stop = stop_request(pod, web.container_id, 6)
    stopping = asyncio.create_task(acting.run(acting.containers.stop_container, stop))
    await asyncio.sleep(2)  # of the six: what is left is requested in whole seconds, rounded up
    await asyncio.to_thread(containerd.process.stop, 10)
    with pytest.raises(ApplicationError) as lost:
        await stopping
    assert lost.value.type == "RuntimeUnavailable"
    await asyncio.to_thread(containerd.start)
    back = datetime.now(UTC)
    ended = await acting.run(acting.containers.stop_container, stop)
    assert ended.exit_code == 137
    assert ended.finished_at is not None
    assert ended.finished_at - back < stop.grace, "the whole grace was given anew"


@asynccontextmanager
async def killed_worker(containerd: Containerd, moment: float) -> AsyncIterator[RuntimeClient]:
    """Return another worker's connection that breaks after `moment` seconds."""
    client = RuntimeClient(containerd.endpoint, StartLimit(4))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(moment):
            yield client
    await client.close()


def _memory_cgroup(acting: Acting, pod: PodKey) -> Path:
    root = "/sys/fs/cgroup" if acting.services.cgroups.v2 else "/sys/fs/cgroup/memory"
    cgroup = Path(f"{root}{acting.services.cgroups.names.path()}/besteffort/pod{pod.uid}")
    assert cgroup.is_dir()
    return cgroup
