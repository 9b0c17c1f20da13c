"""The faults: each a function that arms what it needs, yields while the scenario begins its work, and then strikes and mends.

A fault returns only when everything runs again that it stopped. Whether each pod's containers may be restarted by it says the table
at the end.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.files import mounts
from activities.files.mounts import MountFlag
from tests.chaos.node.cri_proxy import CallFault, Where
from tests.chaos.node.scene import Scene, gateway_pid, has_ended
from tests.node.away.stopped_temporal import server_pid
from tests.node.containerd_view import container_pid, sandboxes_of
from tests.patience import PATIENCE
from worker.standalone.temporal_server import TemporalFailed

STRUCK_WITHIN: Final = 25.0
"""Seconds after which a fault at a call happens anyway: the scenario may have fewer such calls."""
MOST_CALLS: Final = 12
STARTS: Final = ("RunPodSandbox", "CreateContainer", "StartContainer")
STOPS: Final = ("StopContainer", "StopPodSandbox", "RemovePodSandbox")
GARBAGE: Final = (b"", b"{", b"\x00" * 512, b'{"uid": 17}', b"\xff\xfe" * 99)


@contextlib.contextmanager
def worker_killed_at_a_call(scene: Scene) -> Iterator[None]:
    """A kill -9 of the worker before, in, or after a CRI call whose reply it then never sees."""
    where = scene.rng.choice(list(Where))
    methods = frozenset({scene.rng.choice(STOPS if scene.phase == "deleting" else STARTS)})
    skip = scene.rng.randrange(1 if scene.phase == "running" else 3)
    kill = CallFault("kill", methods, where, lambda: scene.kill("worker"), refuses=True, skip=skip)
    fault = scene.call_fault(kill)
    yield
    if not fault.struck.wait(STRUCK_WITHIN):
        scene.proxy.faults.clear()
        scene.kill("worker")
    scene.back("worker")


@contextlib.contextmanager
def worker_killed_again_and_again(scene: Scene) -> Iterator[None]:
    """A kill -9 of the worker three times, each after a few calls."""
    yield
    for _ in range(3):
        scene.after_calls(scene.rng.randrange(1, 5), patience=8)
        scene.kill("worker")
        scene.back("worker")


@contextlib.contextmanager
def poller_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of the poller."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    scene.kill("poller")
    scene.back("poller")


@contextlib.contextmanager
def everything_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of worker, poller and Temporal at once."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
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
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    _kill_temporal(scene)
    time.sleep(scene.rng.choice([0, scene.away_after + 4]))
    _start_temporal(scene)


@contextlib.contextmanager
def temporal_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of Temporal, for less and for more than the node waits."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    with scene.suspended(server_pid(scene.temporal), "Temporal"):
        time.sleep(scene.rng.choice([2, scene.away_after + 6]))


@contextlib.contextmanager
def worker_killed_while_temporal_is_away(scene: Scene) -> Iterator[None]:
    """SIGSTOP of Temporal, and kill -9 of the worker once it leads the pods."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    with scene.suspended(server_pid(scene.temporal), "Temporal"):
        time.sleep(scene.away_after + scene.rng.choice([1, 4]))
        scene.kill("worker")
        scene.back("worker")
        time.sleep(scene.rng.choice([2, 8]))


@contextlib.contextmanager
def worker_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of the worker."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    with scene.suspended(scene.node.processes["worker"].pid, "worker"):
        time.sleep(scene.rng.choice([1, 12]))


@contextlib.contextmanager
def containerd_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of containerd."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    with scene.suspended(scene.containerd_pid(), "containerd"):
        time.sleep(scene.rng.choice([2, 10]))


@contextlib.contextmanager
def containerd_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of containerd; its containers run on."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    pid = scene.containerd_pid()
    scene.note("kill -9 containerd")
    os.kill(pid, signal.SIGKILL)
    scene.node.until(lambda: has_ended(pid), "containerd has ended")
    scene.containerd.start()
    scene.note("containerd started again")


@contextlib.contextmanager
def shim_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of a containerd shim, and so of its pod."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    if shims := scene.shims():
        pid = scene.rng.choice(sorted(shims))
        scene.note(f"kill -9 shim {pid}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def pause_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of a pod's pause process."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    ready = sorted(one for one, is_ready in sandboxes_of(scene.containerd, "") if is_ready)
    if ready:
        sandbox = scene.rng.choice(ready)
        scene.note(f"kill -9 of the pause process of {sandbox}")
        with contextlib.suppress(Exception):  # the sandbox may go meanwhile
            os.kill(container_pid(scene.containerd, sandbox), signal.SIGKILL)


@contextlib.contextmanager
def runtime_refuses(scene: Scene) -> Iterator[None]:
    """Every third call or so that changes something fails before its effect."""
    yield from _calls(scene, "refused", Where.BEFORE, refuses=True)


@contextlib.contextmanager
def runtime_is_slow(scene: Scene) -> Iterator[None]:
    """Calls that change something take seconds longer."""
    yield from _calls(
        scene, "slow", scene.rng.choice([Where.BEFORE, Where.AFTER]), seconds=scene.rng.choice([1.0, 4.0])
    )


@contextlib.contextmanager
def reply_lost(scene: Scene) -> Iterator[None]:
    """Calls take effect, and their caller gets an error."""
    yield from _calls(scene, "reply lost", Where.AFTER, refuses=True)


@contextlib.contextmanager
def disk_full(scene: Scene) -> Iterator[None]:
    """The file system of the node's state takes nothing more; the worker is killed meanwhile, or not."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    filler = scene.node.root_dir / "tempolet" / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    scene.note("the state's disk is full")
    if scene.rng.random() < 0.5:
        time.sleep(2)
        scene.kill("worker")
        scene.back("worker")
    time.sleep(6)
    filler.unlink()
    scene.note("the state's disk has room")


@contextlib.contextmanager
def disk_read_only(scene: Scene) -> Iterator[None]:
    """Worker and poller are killed, and find the file system of the node's state read-only when they start."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    state = scene.node.root_dir / "tempolet"
    for role in scene.node.roles:
        scene.kill(role)
        scene.node.processes[role].wait()
    mounts.mount("", state, flags=MountFlag.REMOUNT | MountFlag.READ_ONLY)
    scene.note("the state's disk is read-only")
    scene.node.start_all()
    time.sleep(8)
    mounts.mount("", state, flags=MountFlag.REMOUNT)
    scene.note("the state's disk can be written")


@contextlib.contextmanager
def files_corrupt(scene: Scene) -> Iterator[None]:
    """The worker is killed, and its caches, journals and tickets are damaged before it starts again."""
    yield
    scene.after_calls(scene.rng.randrange(MOST_CALLS))
    scene.kill("worker")
    scene.node.processes["worker"].wait()
    root = scene.node.root_dir
    # not observed.json: a pod that has lost its ticket, too, gets another run, and its restart count rises once more
    candidates = [*root.glob("pods/*/pod.json")]
    candidates += [one for folder in ("away", "tickets") for one in (root / "tempolet" / folder).rglob("*")]
    candidates += (root / "tempolet").glob("*.json")
    for path in sorted(one for one in candidates if one.is_file()):
        if scene.rng.random() < 0.6:
            _damage(scene, path)
    scene.back("worker")


def _damage(scene: Scene, path: Path) -> None:
    content = path.read_bytes()
    where = scene.rng.randrange(max(1, len(content)))
    damaged = scene.rng.choice([*GARBAGE, content[:where], content[:where] + b"\x00" + content[where + 1 :]])
    path.write_bytes(damaged)
    scene.note(f"damaged {path.relative_to(scene.node.root_dir)}: {len(content)} bytes, now {len(damaged)}")


def _calls(scene: Scene, name: str, where: Where, *, refuses: bool = False, seconds: float = 0.0) -> Iterator[None]:
    """Do something to three single calls, some apart."""
    for _ in range(3):
        fault = CallFault(name, frozenset(), where, refuses=refuses, seconds=seconds, skip=scene.rng.randrange(5))
        scene.call_fault(fault)
    yield
    for fault in scene.proxy.faults:
        fault.struck.wait(STRUCK_WITHIN / 3)
    scene.proxy.faults.clear()
    scene.note("calls pass again")


def _kill_temporal(scene: Scene) -> None:
    pid, gateway = server_pid(scene.temporal), gateway_pid(scene.temporal)
    scene.note("kill -9 Temporal")
    os.kill(pid, signal.SIGKILL)
    scene.node.until(lambda: has_ended(gateway), "Temporal's gateway has ended")


def _start_temporal(scene: Scene) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            scene.temporal.start()
        except TemporalFailed as error:  # the ports of the one that was killed may not be free yet
            scene.note(f"Temporal does not start: {error}")
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            break
    scene.note("Temporal started again")


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table."""

    happens: Callable[[Scene], AbstractContextManager[None]]
    restarts: bool = False
    """A container may be restarted by it, since it ended, or its start failed."""
    ends_pods: bool = False
    """It ends the containers of any pod."""


FAULTS: Final[dict[str, Fault]] = {
    "worker-killed-at-a-call": Fault(worker_killed_at_a_call),
    "worker-killed-again-and-again": Fault(worker_killed_again_and_again),
    "poller-killed": Fault(poller_killed),
    "everything-killed": Fault(everything_killed),
    "temporal-killed": Fault(temporal_killed),
    "temporal-suspended": Fault(temporal_suspended),
    "worker-killed-while-temporal-is-away": Fault(worker_killed_while_temporal_is_away),
    "worker-suspended": Fault(worker_suspended),
    "containerd-suspended": Fault(containerd_suspended, restarts=True),
    "containerd-killed": Fault(containerd_killed, restarts=True),
    "shim-killed": Fault(shim_killed, restarts=True, ends_pods=True),
    "pause-killed": Fault(pause_killed, restarts=True, ends_pods=True),
    "runtime-refuses": Fault(runtime_refuses, restarts=True),
    "runtime-slow": Fault(runtime_is_slow, restarts=True),
    "reply-lost": Fault(reply_lost, restarts=True),
    "disk-full": Fault(disk_full),
    "disk-read-only": Fault(disk_read_only),
    "files-corrupt": Fault(files_corrupt),
}
