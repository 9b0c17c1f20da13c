"""containerd and what runs below it: killed, suspended, refusing, slow."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from tests.chaos.node.cri_proxy import CallFault, Where
from tests.chaos.node.scene import Scene, has_ended
from tests.node.containerd_view import container_pid, sandboxes_of


@contextlib.contextmanager
def containerd_suspended(scene: Scene) -> Iterator[None]:
    """SIGSTOP of containerd."""
    yield
    scene.after_some_calls()
    with scene.suspended(scene.containerd_pid(), "containerd"):
        time.sleep(scene.rng.choice([2, 6]))


@contextlib.contextmanager
def containerd_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of containerd; its containers run on."""
    yield
    scene.after_some_calls()
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
    scene.after_some_calls()
    if shims := scene.shims():
        pid = scene.rng.choice(sorted(shims))
        scene.note(f"kill -9 shim {pid}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def pause_killed(scene: Scene) -> Iterator[None]:
    """A kill -9 of a pod's pause process."""
    yield
    scene.after_some_calls()
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


def _calls(scene: Scene, name: str, where: Where, *, refuses: bool = False, seconds: float = 0.0) -> Iterator[None]:
    """Do something to three single calls, some apart."""
    for _ in range(3):
        fault = CallFault(name, frozenset(), where, refuses=refuses, seconds=seconds, skip=scene.rng.randrange(5))
        scene.call_fault(fault)
    yield
    armed = list(scene.proxy.faults)
    scene.until_struck(lambda: all(one.struck.is_set() for one in armed))
    scene.proxy.faults.clear()
    scene.note("calls pass again")
