"""Processes of the node, and Temporal, that are killed or suspended."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Final

from tests.chaos.node.cri_proxy import CallFault, Where
from tests.chaos.node.scene import Scene, gateway_pid, has_ended, start_again
from tests.node.away.stopped_temporal import server_pid

STARTS: Final = ("RunPodSandbox", "CreateContainer", "StartContainer")
STOPS: Final = ("StopContainer", "StopPodSandbox", "RemovePodSandbox")


@contextlib.contextmanager
def worker_killed_at_a_call(scene: Scene) -> Iterator[None]:
    """A kill -9 of the worker before, in, or after a CRI call whose reply it then never sees."""
    where = scene.rng.choice(list(Where))
    methods = frozenset({scene.rng.choice(STOPS if scene.phase == "deleting" else STARTS)})
    skip = scene.rng.randrange(1 if scene.phase == "running" else 3)
    kill = CallFault("kill", methods, where, lambda: scene.kill("worker"), refuses=True, skip=skip)
    fault = scene.call_fault(kill)
    yield
    scene.until_struck(fault.struck.is_set)
    if not fault.struck.is_set():
        scene.proxy.faults.clear()
        scene.kill("worker")
    scene.back("worker")


@contextlib.contextmanager
def worker_killed_again_and_again(scene: Scene) -> Iterator[None]:
    """A kill -9 of the worker three times, each after a few calls."""
    yield
    for _ in range(3):
        scene.after_calls(scene.rng.randrange(1, 5))
        scene.kill("worker")
        scene.back("worker")


@contextlib.contextmanager
def poller_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of the poller."""
    yield
    scene.after_some_calls()
    scene.kill("poller")
    scene.back("poller")


@contextlib.contextmanager
def everything_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of worker, poller and Temporal at once."""
    yield
    scene.after_some_calls()
    scene.kill("worker")
    scene.kill("poller")
    _kill_temporal(scene)
    scene.back("worker")
    scene.back("poller")
    _start_temporal(scene)


@contextlib.contextmanager
def temporal_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of Temporal, which stays away long enough for the node to lead its pods, or not."""
    yield
    scene.after_some_calls()
    _kill_temporal(scene)
    if scene.rng.random() < 0.5:
        scene.until_led()
    _start_temporal(scene)


@contextlib.contextmanager
def temporal_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of Temporal, for less and for more than the node waits."""
    yield
    scene.after_some_calls()
    with scene.suspended(server_pid(scene.temporal), "Temporal"):
        if scene.rng.random() < 0.5:
            time.sleep(2)
        else:
            scene.until_led()
            time.sleep(1)


@contextlib.contextmanager
def worker_killed_while_temporal_is_away(scene: Scene) -> Iterator[None]:
    """SIGSTOP of Temporal, and kill -9 of the worker once it leads the pods."""
    yield
    scene.after_some_calls()
    with scene.suspended(server_pid(scene.temporal), "Temporal"):
        scene.until_led()
        time.sleep(scene.rng.choice([0, 2]))
        scene.kill("worker")
        scene.back("worker")
        time.sleep(scene.rng.choice([2, 6]))


@contextlib.contextmanager
def worker_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of the worker."""
    yield
    scene.after_some_calls()
    with scene.suspended(scene.node.processes["worker"].pid, "worker"):
        time.sleep(scene.rng.choice([1, 9]))


def _kill_temporal(scene: Scene) -> None:
    pid, gateway = server_pid(scene.temporal), gateway_pid(scene.temporal)
    scene.note("kill -9 Temporal")
    os.kill(pid, signal.SIGKILL)
    scene.node.until(lambda: has_ended(gateway), "Temporal's gateway has ended")


def _start_temporal(scene: Scene) -> None:
    start_again(scene.temporal)
    scene.note("Temporal started again")
