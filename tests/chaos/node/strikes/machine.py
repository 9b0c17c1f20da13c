"""The machine under the node: descriptors and addresses run out, a network namespace vanishes."""

import contextlib
import ipaddress
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.files import mounts
from tests.chaos.node.scene import Scene

LASTS: Final = 4.0
"""Seconds."""


@contextlib.contextmanager
def descriptors_exhausted(scene: Scene) -> Iterator[None]:
    """Worker or poller can open no more files and sockets."""
    yield
    role = scene.rng.choice(scene.node.roles)
    pid = scene.node.processes[role].pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, before[1]))
    scene.note(f"{role} may open no more than its {open_now} descriptors")
    try:
        time.sleep(LASTS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        scene.note(f"{role} may open descriptors again")


@contextlib.contextmanager
def addresses_exhausted(scene: Scene) -> Iterator[None]:
    """No address is left for a pod."""
    network = scene.containerd.network
    folder = scene.containerd.places.addresses / network.bridge
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    for address in ipaddress.ip_network(network.subnet).hosts():
        path = folder / str(address)
        with contextlib.suppress(FileExistsError), path.open("x") as file:
            file.write("chaos\r\neth0")
            taken.append(path)
    scene.note(f"took the {len(taken)} addresses that were left")
    try:
        yield
        time.sleep(LASTS)
    finally:
        for path in taken:
            path.unlink()
        scene.note("gave them back")


@contextlib.contextmanager
def network_namespace_removed(scene: Scene) -> Iterator[None]:
    """The network namespace of one pod is removed under it."""
    yield
    scene.after_some_calls()
    folder = scene.containerd.places.state / "io.containerd.grpc.v1.cri" / "netns"
    path = folder / scene.rng.choice(sorted(one.name for one in folder.iterdir()))
    with contextlib.suppress(OSError):  # the pod may go meanwhile
        mounts.unmount(path)
        path.unlink()
        scene.note(f"removed {path}")
