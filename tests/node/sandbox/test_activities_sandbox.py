"""Is a sandbox found or created, also when calls are repeated, interrupted or late, for one pod of a name at a time?"""

import asyncio
from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError

from activities.sandbox.sandbox import prepare_sandbox
from proto.temporal.activities.requests import (
    AwaitPredecessor,
    PodRuntime,
    RemoveContainer,
    RemovePodSandbox,
    StopPodSandbox,
)
from tests.node.acting import Acting, sandbox_spec
from tests.node.containerd_view import no_addresses
from tests.node.tempolet_node import PATIENCE
from worker.standalone.containerd import Containerd


async def test_a_sandbox_is_made_once(acting: Acting) -> None:
    """The second call finds the first one's sandbox, and says so."""
    pod = acting.pod()
    first, second = await acting.sandbox(pod), await acting.sandbox(pod)
    assert (first.adopted, second.adopted) == (False, True)
    assert replace(second, adopted=False) == first
    assert first.ips
    assert first.created_at is not None
    [read] = (await acting.read(pod)).sandboxes
    assert (read.sandbox_id, read.ready, read.ips) == (first.sandbox_id, True, first.ips)


async def test_a_sandbox_that_hangs_is_given_up_when_its_pod_goes(acting: Acting, containerd: Containerd) -> None:
    """The error says so, nothing of it is left once the runtime has noticed, and its name is free again."""
    pod = acting.pod()
    terminating = acting.services.terminating
    with no_addresses(containerd):
        running = asyncio.create_task(acting.sandbox(pod))
        await asyncio.sleep(0.5)
        terminating.set(pod.uid, terminating=True)
        with pytest.raises(ApplicationError, match="given up 5 s after the pod began to terminate") as given_up:
            await running
        assert (given_up.value.type, given_up.value.non_retryable) == ("FailedCreatePodSandBox", True)
    terminating.set(pod.uid, terminating=False)
    again = await acting.sandbox(pod)
    assert [(one.sandbox_id, one.ready) for one in (await acting.read(pod)).sandboxes] == [(again.sandbox_id, True)]


async def test_two_runs_at_once_make_one_sandbox(acting: Acting) -> None:
    """A second attempt that overlaps the first one waits for it."""
    pod = acting.pod()
    answers = await asyncio.gather(acting.sandbox(pod), acting.sandbox(pod))
    assert len({one.sandbox_id for one in answers}) == 1
    assert len((await acting.read(pod)).sandboxes) == 1


async def test_a_name_that_an_earlier_call_holds_is_adopted(acting: Acting) -> None:
    """The call of a killed worker is still in progress in containerd: its sandbox is adopted."""
    pod = acting.pod()
    config = (await asyncio.to_thread(prepare_sandbox, acting.services, pod, sandbox_spec(pod), 0)).config
    earlier = asyncio.create_task(acting.services.runtime.run_pod_sandbox(config))
    await asyncio.sleep(0)
    answer = await acting.sandbox(pod)
    assert answer.sandbox_id == await earlier
    assert answer.adopted
    assert len((await acting.read(pod)).sandboxes) == 1


async def test_a_sandbox_that_died_with_containers_keeps_its_name(acting: Acting) -> None:
    """The new one is the next attempt and reports it; the exits in the old one can still be read."""
    pod = acting.pod()
    first = await acting.sandbox(pod)
    await acting.start(pod, first)
    await acting.run(acting.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, first.sandbox_id))
    second = await acting.sandbox(pod)
    assert (second.attempt, second.adopted) == (1, False)
    assert [(one.attempt, one.ready) for one in (await acting.read(pod)).sandboxes] == [(1, True), (0, False)]


async def test_a_sandbox_that_was_left_half_made_is_removed(acting: Acting) -> None:
    """Nothing ran in it: its name is reused."""
    pod = acting.pod()
    first = await acting.sandbox(pod)
    await acting.services.runtime.stop_pod_sandbox(first.sandbox_id)
    second = await acting.sandbox(pod)
    assert (second.attempt, second.adopted) == (0, False)
    assert [one.sandbox_id for one in (await acting.read(pod)).sandboxes] == [second.sandbox_id]


async def test_a_stop_and_a_removal_may_come_twice_and_late(acting: Acting) -> None:
    """A sandbox that is gone counts as stopped and removed."""
    pod = acting.pod()
    sandbox = await acting.sandbox(pod)
    web = await acting.start(pod, sandbox)
    for _ in range(2):
        await acting.run(acting.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, sandbox.sandbox_id))
    for _ in range(2):
        await acting.run(acting.containers.remove_container, RemoveContainer(pod, "web", web.container_id))
    for _ in range(2):
        await acting.run(acting.sandboxes.remove_pod_sandbox, RemovePodSandbox(pod, sandbox.sandbox_id))
    await acting.run(acting.sandboxes.stop_pod_sandbox, StopPodSandbox(pod, sandbox.sandbox_id))
    assert await acting.read(pod) == PodRuntime()


async def test_another_uid_of_the_name_is_refused_until_it_is_gone(acting: Acting) -> None:
    """The pod of an edited manifest neither runs beside its predecessor nor misses its end."""
    old = acting.pod()
    new = acting.pod(old.name)
    sandbox = await acting.sandbox(old)
    with pytest.raises(ApplicationError, match=old.uid) as refused:
        await acting.sandbox(new)
    assert (refused.value.type, refused.value.non_retryable) == ("PredecessorPresent", True)
    waiting = asyncio.create_task(acting.run(acting.predecessors.await_predecessor, AwaitPredecessor(new)))
    done, _ = await asyncio.wait({waiting}, timeout=0.5)
    assert not done
    await acting.run(acting.sandboxes.remove_pod_sandbox, RemovePodSandbox(old, sandbox.sandbox_id))
    await asyncio.wait_for(waiting, PATIENCE)
    assert (await acting.sandbox(new)).attempt == 0
