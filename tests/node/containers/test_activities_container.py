"""Is a container found, created, started and stopped correctly, also when calls are repeated, interrupted or late?"""

import asyncio
import contextlib
import platform
import random
import socket
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.clients.cri_error import CriError
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.container_hash import container_hash
from proto.temporal.activities.requests import (
    MakePodDirectories,
    PodSandbox,
    RemoveContainer,
    RemovePodSandbox,
    RunPodSandbox,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
)
from proto.temporal.pod import ContainerState, PodKey
from tests.node.acting import Acting, sandbox_spec, start_request, stop_request
from tests.node.tempolet_node import PATIENCE
from worker.standalone.containerd import Containerd
from worker.standalone.machine import programs


@pytest.fixture
def graces(acting: Acting, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the grace periods that the runtime is asked for, in seconds."""
    asked: list[int] = []
    stop = acting.services.runtime.stop_container

    async def noted(container_id: str, grace_seconds: int) -> None:
        asked.append(grace_seconds)
        await stop(container_id, grace_seconds)

    monkeypatch.setattr(acting.services.runtime, "stop_container", noted)
    return asked


async def test_a_container_is_started_once(acting: Acting) -> None:
    """The second call returns the running container; it has the kubelet's labels, log and files."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    first, second = await acting.start(pod, sandbox), await acting.start(pod, sandbox)
    assert second == replace(first, adopted=True)
    assert not first.adopted
    assert first.state is ContainerState.RUNNING
    assert first.started_at is not None
    assert first.sandbox_id == sandbox.sandbox_id
    assert len((await acting.read(pod)).containers) == 1
    status = await acting.services.runtime.container_status(first.container_id)
    assert status.labels["io.kubernetes.container.name"] == "web"
    assert status.annotations["io.kubernetes.container.restartCount"] == "0"
    assert Path(status.log_path) == acting.services.paths(pod).container_logs("web") / "0.log"


async def test_a_container_sees_its_files_and_environment(acting: Acting) -> None:
    """/etc/hosts, resolv.conf, host name and expanded variables are correct inside, and the termination message is read back."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    script = 'echo "$HELLO" $0; grep -c "$IP" /etc/hosts; hostname; echo bye > /dev/termination-log; exit 3'
    env = [
        {"name": "IP", "value": sandbox.ips[0]},
        {"name": "HELLO", "value": "at $(IP), $$(IP)"},
    ]
    web = await acting.start(pod, sandbox, command=["sh", "-c", script, "$(IP)"], env=env)
    ended = await _ended(acting, pod, web.container_id)
    assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "bye\n")
    log = (acting.services.paths(pod).container_logs("web") / "0.log").read_text()
    assert f"at {sandbox.ips[0]}, $(IP) {sandbox.ips[0]}\n" in log
    assert "stdout F 1\n" in log
    assert f"stdout F {pod.name}\n" in log


async def test_a_created_container_is_started(acting: Acting) -> None:
    """A worker died between create and start: the container that it created is started, and no second one is created."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    request = start_request(pod, sandbox)
    made = (await acting.containers._create(request, 0)).container_id
    web = await acting.run(acting.containers.start_container, request)
    assert (web.container_id, web.state) == (made, ContainerState.RUNNING)


async def test_an_interrupted_start_is_no_end(acting: Acting) -> None:
    """A worker died while the runtime started it, and nobody remembers that: it is not there, and is made again under its attempt."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    request = start_request(pod, sandbox)
    async with asyncio.timeout(PATIENCE):
        while not await _start_interrupted(acting, request):
            pass  # it was broken off before the runtime had begun, or too late
    assert (await acting.read(pod)).containers == ()
    web = await acting.run(acting.containers.start_container, request)
    assert (web.attempt, web.state) == (0, ContainerState.RUNNING)


async def _start_interrupted(acting: Acting, request: StartContainer) -> bool:
    """Break a start off at a random moment; leaves the container only if that was in its middle."""
    runtime = acting.services.runtime
    made = (await acting.containers._create(request, 0)).container_id
    start = asyncio.create_task(runtime.start_container(made))
    await asyncio.sleep(random.uniform(0, 0.1))  # the moment that the test is about
    start.cancel()
    await asyncio.wait([start])
    while (await runtime.container_status(made)).reason != "StartError":
        with contextlib.suppress(CriError):  # it is just starting
            await runtime.stop_container(made, 1)
            await runtime.remove_container(made)
            return False
        await asyncio.sleep(0.01)
    return True


async def test_a_created_container_of_an_image_that_nobody_wants_any_more_is_made_anew(acting: Acting) -> None:
    """A worker died between create and start, and the pod was edited then; a running container is reported as it is."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    before = start_request(pod, sandbox)
    made = (await acting.containers._create(before, 0)).container_id
    other = start_request(pod, sandbox, image="busybox:1.37")
    web = await acting.run(acting.containers.start_container, other)
    assert (web.attempt, web.state, web.hash) == (0, ContainerState.RUNNING, container_hash("web", "busybox:1.37"))
    assert made not in {one.container_id for one in (await acting.read(pod)).containers}
    late = await acting.run(acting.containers.start_container, before)
    assert (late.container_id, late.hash) == (web.container_id, web.hash)


@pytest.mark.parametrize("removed", ["container", "sandbox"])
async def test_a_container_whose_task_the_runtime_has_lost_is_removed(
    acting: Acting, containerd: Containerd, removed: str
) -> None:
    """A killed worker's start may leave one: containerd refuses to remove it until its processes are gone."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    made = (await acting.containers._create(start_request(pod, sandbox), 0)).container_id
    # a task behind the back of containerd's CRI, which so knows nothing of it, as of one that it has lost
    arguments = ("--address", containerd.socket, "--namespace", "k8s.io", "tasks", "start", "--detach", made)
    subprocess.run([programs.find_program(programs.CTR), *arguments], check=True)  # noqa: ASYNC221 - a test may wait
    runtime = acting.services.runtime
    with pytest.raises(CriError, match="cannot delete running task"):
        await runtime._ask(runtime._runtime.RemoveContainer, cri.RemoveContainerRequest(container_id=made))
    if removed == "container":
        await acting.run(acting.containers.remove_container, RemoveContainer(pod, "web", made))
        assert not (await acting.read(pod)).containers
    else:
        await acting.services.runtime.stop_pod_sandbox(sandbox.sandbox_id)
        await acting.run(acting.sandboxes.remove_pod_sandbox, RemovePodSandbox(pod, sandbox.sandbox_id))
        assert not (await acting.read(pod)).sandboxes


async def test_an_ended_container_is_answered_not_started_again(acting: Acting) -> None:
    """For an attempt that has exited only the exit is returned; the next attempt is another container."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    first = await acting.start(pod, sandbox, command=["true"])
    ended = await _ended(acting, pod, first.container_id)
    again = await acting.start(pod, sandbox, command=["true"])
    assert again == replace(ended, adopted=True)
    assert (again.exit_code, again.reason) == (0, "Completed")
    second = await acting.start(pod, sandbox, attempt=1)
    assert second.attempt == 1
    assert [one.attempt for one in (await acting.read(pod)).containers] == [1, 0]


async def test_a_program_that_is_not_there_is_an_end_not_an_error(acting: Acting) -> None:
    """CRI's StartError is reported as the container's exit."""
    pod = acting.pod()
    web = await acting.start(pod, await acting.sandbox(pod), command=["/no/such/program"])
    assert (web.state, web.exit_code, web.reason) == (ContainerState.EXITED, 128, "StartError")
    assert "/no/such/program" in web.message


async def test_a_container_without_a_sandbox_is_refused_with_the_reason(acting: Acting) -> None:
    """The workflow handles it by its type, and the message contains no environment."""
    pod = acting.pod()
    gone = PodSandbox("no-such-sandbox", 0, ("10.0.0.1",))
    await acting.run(acting.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    request = start_request(pod, gone, env=[{"name": "TOKEN", "value": "s3cret"}])
    with pytest.raises(ApplicationError, match="no-such-sandbox") as refused:
        await acting.run(acting.containers.start_container, request)
    assert (refused.value.type, refused.value.non_retryable) == ("CreateContainerError", True)
    assert "s3cret" not in str(refused.value)


async def test_a_stop_keeps_to_the_grace_that_is_left(acting: Acting, graces: list[int]) -> None:
    """A container that ignores SIGTERM is killed when the grace period is over, counted from the request.

    If the request was made while the runtime was down, it still gets SIGTERM one second before.
    """
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    deaf = ["sh", "-c", "trap '' TERM; echo up; while true; do sleep 1; done"]
    web = await acting.start(pod, sandbox, command=deaf)
    # before it runs its command, the process is still runc's, which heeds SIGTERM
    await acting.said(pod, "up")
    begun = datetime.now(UTC)
    ended = await acting.run(acting.containers.stop_container, stop_request(pod, web.container_id, 1, begun))
    assert (ended.state, ended.exit_code) == (ContainerState.EXITED, 137)
    assert timedelta(seconds=0.9) < _took(begun, ended) < timedelta(seconds=30)
    other = await acting.start(pod, sandbox, attempt=1, command=deaf)
    await acting.said(pod, "up", attempt=1)
    begun = datetime.now(UTC)
    late = stop_request(pod, other.container_id, 30, begun - timedelta(seconds=31))
    ended = await acting.run(acting.containers.stop_container, late)
    assert graces == [1, 1]
    assert timedelta(seconds=0.9) < _took(begun, ended) < timedelta(seconds=30)


async def test_a_stop_may_come_twice_and_late(acting: Acting) -> None:
    """A second stop returns the same exit; one after the removal returns that nothing is known."""
    pod = acting.pod()
    heeds = ["sh", "-c", "trap 'exit 7' TERM; echo up; sleep 1000 & wait"]
    web = await acting.start(pod, await acting.sandbox(pod), command=heeds)
    await acting.said(pod, "up")  # its trap is set: without one the first process of a container ignores the signal
    stop = stop_request(pod, web.container_id, 5)
    first = await acting.run(acting.containers.stop_container, stop)
    assert first.exit_code == 7
    assert await acting.run(acting.containers.stop_container, stop) == first
    await acting.run(acting.containers.remove_container, RemoveContainer(pod, "web", web.container_id))
    late = await acting.run(acting.containers.stop_container, stop)
    assert (late.state, late.exit_code, late.reason) == (ContainerState.EXITED, None, "ContainerStatusUnknown")


async def test_a_stop_under_way_is_shortened(acting: Acting, graces: list[int]) -> None:
    """By a second one with a shorter grace period; both return the same exit, and it may be repeated and late."""
    pod = acting.pod()
    deaf = ["sh", "-c", "trap 'echo heard' TERM; echo up; while true; do sleep 1; done"]
    web = await acting.start(pod, await acting.sandbox(pod), command=deaf)
    await acting.said(pod, "up")
    begun = datetime.now(UTC)
    stop = stop_request(pod, web.container_id, 30, begun)
    first = asyncio.create_task(acting.run(acting.containers.stop_container, stop))
    log = await acting.said(pod, "heard")
    asked = datetime.now(UTC)
    shorter = ShortenStop(pod, "web", web.container_id, timedelta(seconds=1), asked, "Deleted")
    answers = await asyncio.gather(*[acting.run(acting.containers.shorten_stop, shorter) for _ in range(2)])
    ended = await first
    assert timedelta(seconds=0.9) < _took(asked, ended) < timedelta(seconds=30)
    assert graces[1:] == [1, 1]
    assert (ended.state, ended.exit_code) == (ContainerState.EXITED, 137)
    assert answers == [ended, ended]
    assert log.read_text().count("heard") == 1, "the stop signal is sent once"
    assert await acting.run(acting.containers.shorten_stop, shorter) == ended
    await acting.run(acting.containers.remove_container, RemoveContainer(pod, "web", web.container_id))
    late = await acting.run(acting.containers.shorten_stop, shorter)
    assert (late.state, late.reason) == (ContainerState.EXITED, "ContainerStatusUnknown")


async def test_the_tail_of_the_log_speaks_for_a_silent_failure(acting: Acting) -> None:
    """FallbackToLogsOnError, and a custom terminationMessagePath."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    policy = {"terminationMessagePath": "/tmp/last-words", "terminationMessagePolicy": "FallbackToLogsOnError"}
    silent = await acting.start(pod, sandbox, command=["sh", "-c", "echo oops; exit 1"], **policy)
    assert (await _ended(acting, pod, silent.container_id)).message == "oops\n"
    said = ["sh", "-c", "echo oops; echo why > /tmp/last-words; exit 1"]
    told = await acting.start(pod, sandbox, attempt=1, command=said, **policy)
    assert (await _ended(acting, pod, told.container_id)).message == "why\n"


async def test_out_of_memory_has_its_reason(acting: Acting) -> None:
    """The limit is the container's own, and the runtime's reason is kept."""
    pod = acting.pod()
    # the shell survives the killed process: containerd sees both exits in any order, and says Error if it sees the shell's first
    eats = ["sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1000; code=$?; sleep 1; exit $code"]
    limits = {"limits": {"memory": "24Mi"}, "requests": {"memory": "24Mi"}}
    web = await acting.start(pod, await acting.sandbox(pod), command=eats, resources=limits)
    ended = await _ended(acting, pod, web.container_id)
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")


async def test_a_pod_on_the_host_network_sees_the_node(acting: Acting) -> None:
    """It has no address of its own, and the node's host name and hosts file."""
    pod = acting.pod()
    spec = sandbox_spec(pod)
    spec["spec"]["hostNetwork"] = True
    await acting.run(acting.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    sandbox = await acting.run(acting.sandboxes.run_pod_sandbox, RunPodSandbox(pod, 0, spec))
    assert sandbox.ips == ()
    script = "hostname; head -1 /etc/hosts"
    request = replace(start_request(pod, sandbox, command=["sh", "-c", script]), sandbox_spec=spec)
    web = await acting.run(acting.containers.start_container, request)
    await _ended(acting, pod, web.container_id)
    log = (acting.services.paths(pod).container_logs("web") / "0.log").read_text()
    assert f"stdout F {platform.node()}\n" in log
    assert "# Kubernetes-managed hosts file (host network)." in log


async def test_a_host_port_leads_to_the_container(acting: Acting) -> None:
    """From the node's own address to the server in the pod."""
    pod = acting.pod()
    spec = sandbox_spec(pod)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    spec["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": port}]
    await acting.run(acting.directories.make_pod_directories, MakePodDirectories(pod, ("web",)))
    sandbox = await acting.run(acting.sandboxes.run_pod_sandbox, RunPodSandbox(pod, 0, spec))
    serve = ["nc", "-ll", "-p", "8080", "-e", "echo", "hello"]
    await acting.run(acting.containers.start_container, start_request(pod, sandbox, command=serve))
    gateway = sandbox.ips[0].rpartition(".")[0] + ".1"
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ConnectionError):
                reader, writer = await asyncio.open_connection(gateway, port)
                answer = await reader.read(100)
                writer.close()
                break
            await asyncio.sleep(0.05)
    assert answer == b"hello\n"


def _took(begun: datetime, ended: RuntimeContainer) -> timedelta:
    """Return how long after a moment the container exited by the runtime's clock; delays of a busy machine afterwards don't count."""
    assert ended.finished_at is not None
    return ended.finished_at - begun


async def _ended(acting: Acting, pod: PodKey, container_id: str) -> RuntimeContainer:
    async with asyncio.timeout(PATIENCE):
        while True:
            [found] = [one for one in (await acting.read(pod)).containers if one.container_id == container_id]
            if found.state is ContainerState.EXITED:
                return found
            await asyncio.sleep(0.02)
