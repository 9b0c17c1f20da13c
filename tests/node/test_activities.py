"""Does every activity find or make, twice, halfway and late, on a real containerd, and while it restarts?"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.cgroups import Cgroups
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.containers import ContainerActivities
from activities.directories import DirectoryActivities
from activities.image_pulls import ImagePulls
from activities.images import ImageActivities
from activities.node_services import ActivitySettings, NodeServices
from activities.predecessor import PredecessorActivities
from activities.runtime_facts import RuntimeFactsActivities
from activities.sandbox import SandboxActivities, prepare_sandbox
from proto.temporal.pod import ContainerState, PodJson, PodKey
from proto.temporal.requests import (
    AwaitPredecessor,
    MakePodDirectories,
    PodRuntime,
    PodSandbox,
    PullImage,
    ReadPodRuntime,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from tests.node.conftest import BUSYBOX
from worker.standalone.containerd import Containerd

_Answer = TypeVar("_Answer")


class Node:
    """The activities of one test, run as Temporal would, and the pods it made."""

    def __init__(self, services: NodeServices) -> None:
        self.services = services
        self.directories = DirectoryActivities(services)
        self.sandboxes = SandboxActivities(services)
        self.containers = ContainerActivities(services)
        self.images = ImageActivities(services)
        self.predecessors = PredecessorActivities(services)
        self.facts = RuntimeFactsActivities(services)
        self.pods: list[PodKey] = []

    async def run(self, activity: Callable[..., Coroutine[Any, Any, _Answer]], request: object) -> _Answer:
        """Run one activity as the worker would, with a heartbeat timeout."""
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=5))
        return await environment.run(activity, request)

    def pod(self, name: str = "") -> PodKey:
        """Name a pod that the test cleans up after."""
        key = PodKey("default", name or f"pod-{uuid4().hex[:8]}", str(uuid4()))
        self.pods.append(key)
        return key

    async def sandbox(self, pod: PodKey, attempt: int = 0) -> PodSandbox:
        """Make the pod's directories and its sandbox."""
        await self.run(self.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
        return await self.run(self.sandboxes.run_pod_sandbox, RunPodSandbox(pod, attempt, sandbox_spec(pod)))

    async def start(self, pod: PodKey, sandbox: PodSandbox, **container: Any) -> RuntimeContainer:
        """Start the container `web`, by default one that sleeps."""
        return await self.run(self.containers.start_container, start_request(pod, sandbox, **container))

    async def read(self, pod: PodKey) -> PodRuntime:
        """Read the pod back."""
        return await self.run(self.facts.read_pod_runtime, ReadPodRuntime(pod))

    async def clean(self) -> None:
        """Remove every pod of the test."""
        for pod in self.pods:
            for sandbox in (await self.read(pod)).sandboxes:
                await self.services.runtime.stop_pod_sandbox(sandbox.sandbox_id)
                await self.services.runtime.remove_pod_sandbox(sandbox.sandbox_id)
            await self.run(self.directories.remove_pod_directories, RemovePodDirectories(pod, "BestEffort"))


def sandbox_spec(pod: PodKey) -> PodJson:
    """Give what a sandbox is told of the pod."""
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": {"app": "test"}},
        "spec": {"containers": [{"name": "web"}], "terminationGracePeriodSeconds": 30},
    }


def start_request(pod: PodKey, sandbox: PodSandbox, *, attempt: int = 0, **container: Any) -> StartContainer:
    """Ask for the container `web`; keywords replace parts of its spec."""
    spec = {
        "name": "web",
        "image": BUSYBOX,
        "command": ["sleep", "1000"],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        **container,
    }
    return StartContainer(pod, sandbox.sandbox_id, attempt, BUSYBOX, spec, sandbox_spec(pod), 0, sandbox.ips)


def stop_request(pod: PodKey, container_id: str, grace: float, asked_at: datetime | None = None) -> StopContainer:
    """Ask for the end of `web` within `grace` seconds."""
    return StopContainer(
        pod, "web", container_id, timedelta(seconds=grace), asked_at or datetime.now(UTC), "the test says so"
    )


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    """Give the activities on the session's containerd; what a test leaves is removed after it."""
    runtime = RuntimeClient(containerd.endpoint, StartLimit(4))
    cgroups = Cgroups(containerd.cgroup)
    settings = ActivitySettings(
        root_dir=tmp_path / "kubelet",
        pod_logs_dir=tmp_path / "logs",
        name_reserved_wait=timedelta(seconds=2),
    )
    services = NodeServices(settings=settings, runtime=runtime, cgroups=cgroups, pulls=ImagePulls())
    cgroups.make_tiers()
    made = Node(services)
    try:
        yield made
    finally:
        await made.clean()
        cgroups.remove_tiers()
        await runtime.close()


async def test_a_sandbox_is_made_once(node: Node) -> None:
    """The second run finds the first one's sandbox, and says so."""
    pod = node.pod()
    first, second = await node.sandbox(pod), await node.sandbox(pod)
    assert (first.adopted, second.adopted) == (False, True)
    assert replace(second, adopted=False) == first
    assert first.ips
    assert first.created_at is not None
    [read] = (await node.read(pod)).sandboxes
    assert (read.sandbox_id, read.ready, read.ips) == (first.sandbox_id, True, first.ips)


async def test_two_runs_at_once_make_one_sandbox(node: Node) -> None:
    """A second try that overlaps the first one waits for it."""
    pod = node.pod()
    answers = await asyncio.gather(node.sandbox(pod), node.sandbox(pod))
    assert len({one.sandbox_id for one in answers}) == 1
    assert len((await node.read(pod)).sandboxes) == 1


async def test_a_name_that_an_earlier_call_holds_is_adopted(node: Node) -> None:
    """The call of a killed worker is still under way in containerd: its sandbox becomes ours."""
    pod = node.pod()
    config = await asyncio.to_thread(prepare_sandbox, node.services, pod, sandbox_spec(pod), 0)
    earlier = asyncio.create_task(node.services.runtime.run_pod_sandbox(config))
    await asyncio.sleep(0)
    answer = await node.sandbox(pod)
    assert answer.sandbox_id == await earlier
    assert answer.adopted
    assert len((await node.read(pod)).sandboxes) == 1


async def test_a_sandbox_that_died_with_containers_keeps_its_name(node: Node) -> None:
    """The new one takes the next attempt and says which; what ended in the old one can still be read."""
    pod = node.pod()
    first = await node.sandbox(pod)
    await node.start(pod, first)
    await node.run(node.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, first.sandbox_id))
    second = await node.sandbox(pod)
    assert (second.attempt, second.adopted) == (1, False)
    assert [(one.attempt, one.ready) for one in (await node.read(pod)).sandboxes] == [(1, True), (0, False)]


async def test_a_sandbox_that_was_left_half_made_is_removed(node: Node) -> None:
    """Nobody knows of it, nothing ran in it: its name is used again."""
    pod = node.pod()
    first = await node.sandbox(pod)
    await node.services.runtime.stop_pod_sandbox(first.sandbox_id)
    second = await node.sandbox(pod)
    assert (second.attempt, second.adopted) == (0, False)
    assert [one.sandbox_id for one in (await node.read(pod)).sandboxes] == [second.sandbox_id]


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.06, 0.1])
async def test_a_killed_workers_calls_leave_one_of_each(node: Node, containerd: Containerd, moment: float) -> None:
    """Its sandbox and its start are found, waited for or made anew; no crash is made of it."""
    pod = node.pod()
    await node.run(node.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    config = await asyncio.to_thread(prepare_sandbox, node.services, pod, sandbox_spec(pod), 0)
    async with killed_worker(containerd, moment) as killed:
        await killed.run_pod_sandbox(config)
    sandbox = await node.sandbox(pod)
    request = start_request(pod, sandbox)
    container_id = await node.containers._create(request, 0)
    async with killed_worker(containerd, moment) as killed:
        await killed.start_container(container_id)
    web = await node.run(node.containers.start_container, request)
    assert (web.state, web.attempt) == (ContainerState.RUNNING, 0)
    found = await node.read(pod)
    assert [one.ready for one in found.sandboxes] == [True]
    assert [one.container_id for one in found.containers] == [web.container_id]


async def test_a_stop_and_a_removal_may_come_twice_and_late(node: Node) -> None:
    """What is gone is stopped and removed."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    web = await node.start(pod, sandbox)
    for _ in range(2):
        await node.run(node.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, sandbox.sandbox_id))
    for _ in range(2):
        await node.run(node.containers.remove_container, RemoveContainer(pod, "web", web.container_id))
    for _ in range(2):
        await node.run(node.sandboxes.remove_pod_sandbox, RemovePodSandbox(pod, sandbox.sandbox_id))
    await node.run(node.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, sandbox.sandbox_id))
    assert await node.read(pod) == PodRuntime()


async def test_another_uid_of_the_name_is_refused_until_it_is_gone(node: Node) -> None:
    """An edited manifest's pod neither runs beside its predecessor nor misses its end."""
    old = node.pod()
    new = node.pod(old.name)
    sandbox = await node.sandbox(old)
    with pytest.raises(ApplicationError, match=old.uid) as refused:
        await node.sandbox(new)
    assert (refused.value.type, refused.value.non_retryable) == ("PredecessorPresent", True)
    waiting = asyncio.create_task(node.run(node.predecessors.await_predecessor, AwaitPredecessor(new)))
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    await node.run(node.sandboxes.remove_pod_sandbox, RemovePodSandbox(old, sandbox.sandbox_id))
    await asyncio.wait_for(waiting, 5)
    assert (await node.sandbox(new)).attempt == 0


async def test_a_container_is_started_once(node: Node) -> None:
    """The second run answers the running one; it carries the kubelet's labels, log and files."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    first, second = await node.start(pod, sandbox), await node.start(pod, sandbox)
    assert first.container_id == second.container_id
    assert first.state is ContainerState.RUNNING
    assert first.started_at is not None
    assert first.sandbox_id == sandbox.sandbox_id
    assert len((await node.read(pod)).containers) == 1
    status = await node.services.runtime.container_status(first.container_id)
    assert status.labels["io.kubernetes.container.name"] == "web"
    assert status.annotations["io.kubernetes.container.restartCount"] == "0"
    assert Path(status.log_path) == node.services.paths(pod).container_logs("web") / "0.log"


async def test_a_container_sees_its_files_and_environment(node: Node) -> None:
    """/etc/hosts, resolv.conf, host name, expanded variables and the termination message reach it and come back."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    script = 'echo "$HELLO" $0; grep -c "$IP" /etc/hosts; hostname; echo bye > /dev/termination-log; exit 3'
    env = [
        {"name": "IP", "value": sandbox.ips[0]},
        {"name": "HELLO", "value": "at $(IP), $$(IP)"},
    ]
    web = await node.start(pod, sandbox, command=["sh", "-c", script, "$(IP)"], env=env)
    ended = await _ended(node, pod, web.container_id)
    assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "bye\n")
    log = (node.services.paths(pod).container_logs("web") / "0.log").read_text()
    assert f"at {sandbox.ips[0]}, $(IP) {sandbox.ips[0]}\n" in log
    assert "stdout F 1\n" in log
    assert f"stdout F {pod.name}\n" in log


async def test_a_created_container_is_started(node: Node) -> None:
    """A worker died between create and start: the container it left runs, no second one is made."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    request = start_request(pod, sandbox)
    made = await node.containers._create(request, 0)
    web = await node.run(node.containers.start_container, request)
    assert (web.container_id, web.state) == (made, ContainerState.RUNNING)


async def test_an_ended_container_is_answered_not_started_again(node: Node) -> None:
    """Of an attempt that has run to its end there is only the end to tell; the next attempt is another container."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    first = await node.start(pod, sandbox, command=["true"])
    ended = await _ended(node, pod, first.container_id)
    again = await node.start(pod, sandbox, command=["true"])
    assert again == ended
    assert (again.exit_code, again.reason) == (0, "Completed")
    second = await node.start(pod, sandbox, attempt=1)
    assert second.attempt == 1
    assert [one.attempt for one in (await node.read(pod)).containers] == [1, 0]


async def test_a_program_that_is_not_there_is_an_end_not_an_error(node: Node) -> None:
    """CRI's StartError is read back as the container's own end."""
    pod = node.pod()
    web = await node.start(pod, await node.sandbox(pod), command=["/no/such/program"])
    assert (web.state, web.exit_code, web.reason) == (ContainerState.EXITED, 128, "StartError")
    assert "/no/such/program" in web.message


async def test_a_container_without_a_sandbox_is_refused_with_the_reason(node: Node) -> None:
    """The workflow judges it by its type, and no environment is in the message."""
    pod = node.pod()
    gone = PodSandbox("no-such-sandbox", 0, ("10.0.0.1",))
    await node.run(node.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    request = start_request(pod, gone, env=[{"name": "TOKEN", "value": "s3cret"}])
    with pytest.raises(ApplicationError, match="no-such-sandbox") as refused:
        await node.run(node.containers.start_container, request)
    assert (refused.value.type, refused.value.non_retryable) == ("CreateContainerError", True)
    assert "s3cret" not in str(refused.value)


async def test_a_stop_keeps_to_the_grace_that_is_left(node: Node) -> None:
    """A container deaf to SIGTERM ends by SIGKILL when grace is over, counted from when it was asked."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    deaf = ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]
    web = await node.start(pod, sandbox, command=deaf)
    begun = datetime.now(UTC)
    ended = await node.run(node.containers.stop_container, stop_request(pod, web.container_id, 1, begun))
    took = datetime.now(UTC) - begun
    assert (ended.state, ended.exit_code) == (ContainerState.EXITED, 137)
    assert timedelta(seconds=0.9) < took < timedelta(seconds=1.9)
    other = await node.start(pod, sandbox, attempt=1, command=deaf)
    begun = datetime.now(UTC)
    late = stop_request(pod, other.container_id, 30, begun - timedelta(seconds=31))
    await node.run(node.containers.stop_container, late)
    assert datetime.now(UTC) - begun < timedelta(seconds=1)


async def test_a_stop_may_come_twice_and_late(node: Node) -> None:
    """A second stop answers the same end; one that comes after the removal says that nothing is known."""
    pod = node.pod()
    web = await node.start(pod, await node.sandbox(pod), command=["sh", "-c", "trap 'exit 7' TERM; sleep 1000 & wait"])
    stop = stop_request(pod, web.container_id, 5)
    first = await node.run(node.containers.stop_container, stop)
    assert first.exit_code == 7
    assert await node.run(node.containers.stop_container, stop) == first
    await node.run(node.containers.remove_container, RemoveContainer(pod, "web", web.container_id))
    late = await node.run(node.containers.stop_container, stop)
    assert (late.state, late.exit_code, late.reason) == (ContainerState.EXITED, None, "ContainerStatusUnknown")


async def test_images_follow_their_policy(node: Node) -> None:
    """Present is present, Never never pulls, a bad name and an unreachable registry have the kubelet's reasons."""
    pod = node.pod()
    present = await node.run(node.images.pull_image, PullImage(pod, BUSYBOX, "IfNotPresent"))
    assert present.present
    assert present.image_ref.startswith("sha256:")
    assert present.size_bytes > 0
    for image, policy, reason in (
        ("localhost:1/none", "Never", "ErrImageNeverPull"),
        ("docker.io/UPPER", "Always", "InvalidImageName"),
        ("localhost:1/none", "IfNotPresent", "ErrImagePull"),
    ):
        with pytest.raises(ApplicationError) as refused:
            await node.run(node.images.pull_image, PullImage(pod, image, policy))
        assert (refused.value.type, refused.value.non_retryable) == (reason, True)


async def test_directories_and_cgroup_come_and_go(node: Node) -> None:
    """Making and removing may both come twice; a straggler in the pod's cgroup ends with it."""
    pod = node.pod()
    make = MakePodDirectories(pod, ("web",))
    for _ in range(2):
        await node.run(node.directories.make_pod_directories, make)
    await node.sandbox(pod)
    paths = node.services.paths(pod)
    assert paths.directory.stat().st_mode & 0o777 == 0o750
    assert paths.container_logs("web").is_dir()
    sandboxes = (await node.read(pod)).sandboxes
    await node.services.runtime.remove_pod_sandbox(sandboxes[0].sandbox_id)
    cgroup = _memory_cgroup(node, pod)
    straggler = await asyncio.create_subprocess_exec("sleep", "1000")
    (cgroup / "cgroup.procs").write_text(str(straggler.pid))
    for _ in range(2):
        await node.run(node.directories.remove_pod_directories, RemovePodDirectories(pod, "BestEffort"))
    assert await straggler.wait() == -signal.SIGKILL
    assert not cgroup.exists()
    assert not paths.directory.exists()
    assert not paths.logs.exists()


async def test_a_restarted_containerd_is_found_within_a_second(node: Node, containerd: Containerd) -> None:
    """Away it is named, with what to do and left to Temporal's retries; back it is found, with all it had."""
    pod = node.pod()
    sandbox = await node.sandbox(pod)
    web = await node.start(pod, sandbox)
    containerd.process.stop(within=10)
    with pytest.raises(ApplicationError, match=str(containerd.socket)) as away:
        await node.read(pod)
    assert (away.value.type, away.value.non_retryable) == ("RuntimeUnavailable", False)
    await asyncio.to_thread(containerd.start)
    for _ in range(10):
        try:
            again = await node.sandbox(pod)
            break
        except ApplicationError:
            await asyncio.sleep(0.1)
    assert (again.sandbox_id, again.adopted) == (sandbox.sandbox_id, True)
    assert (await node.start(pod, sandbox)).container_id == web.container_id


async def test_a_stop_survives_a_restart_of_containerd(node: Node, containerd: Containerd) -> None:
    """The retry after the lost connection goes on with the remaining grace."""
    pod = node.pod()
    deaf = ["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]
    web = await node.start(pod, await node.sandbox(pod), command=deaf)
    stop = stop_request(pod, web.container_id, 3)
    stopping = asyncio.create_task(node.run(node.containers.stop_container, stop))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(containerd.process.stop, 10)
    with pytest.raises(ApplicationError) as lost:
        await stopping
    assert lost.value.type == "RuntimeUnavailable"
    await asyncio.to_thread(containerd.start)
    ended = await node.run(node.containers.stop_container, stop)
    assert ended.exit_code == 137
    assert datetime.now(UTC) - stop.asked_at < timedelta(seconds=6)


@asynccontextmanager
async def killed_worker(containerd: Containerd, moment: float) -> AsyncIterator[RuntimeClient]:
    """Give another worker's connection that breaks off after `moment` seconds."""
    client = RuntimeClient(containerd.endpoint, StartLimit(4))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(moment):
            yield client
    await client.close()


async def _ended(node: Node, pod: PodKey, container_id: str) -> RuntimeContainer:
    async with asyncio.timeout(10):
        while True:
            [found] = [one for one in (await node.read(pod)).containers if one.container_id == container_id]
            if found.state is ContainerState.EXITED:
                return found
            await asyncio.sleep(0.02)


def _memory_cgroup(node: Node, pod: PodKey) -> Path:
    root = "/sys/fs/cgroup" if node.services.cgroups.v2 else "/sys/fs/cgroup/memory"
    cgroup = Path(f"{root}{node.services.cgroups.root}/besteffort/pod{pod.uid}")
    assert cgroup.is_dir()
    return cgroup
