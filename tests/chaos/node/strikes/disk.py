"""The disk with the node's state: full, read-only, or with damaged files."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.files import mounts
from activities.files.mounts import MountFlag
from tests.chaos.node.scene import Scene

GARBAGE: Final = (b"", b"{", b"\x00" * 512, b'{"uid": 17}', b"\xff\xfe" * 99)


@contextlib.contextmanager
def disk_full(scene: Scene) -> Iterator[None]:
    """The file system of the node's state takes nothing more; the worker is killed meanwhile, or not."""
    yield
    scene.after_some_calls()
    filler = scene.node.root_dir / "tempolet" / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    scene.note("the state's disk is full")
    if scene.rng.random() < 0.5:
        time.sleep(2)
        scene.kill("worker")
        scene.back("worker")
    time.sleep(5)
    filler.unlink()
    scene.note("the state's disk has room")


@contextlib.contextmanager
def disk_read_only(scene: Scene) -> Iterator[None]:
    """Worker and poller are killed, and find the file system of the node's state read-only when they start."""
    yield
    scene.after_some_calls()
    state = scene.node.root_dir / "tempolet"
    for role in scene.node.roles:
        scene.kill(role)
        scene.node.processes[role].wait()
    mounts.mount("", state, flags=MountFlag.REMOUNT | MountFlag.READ_ONLY)
    scene.note("the state's disk is read-only")
    scene.node.start_all()
    time.sleep(5)
    mounts.mount("", state, flags=MountFlag.REMOUNT)
    scene.note("the state's disk can be written")


@contextlib.contextmanager
def files_corrupt(scene: Scene) -> Iterator[None]:
    """The worker is killed, and its caches, journals and tickets are damaged before it starts again."""
    yield
    scene.after_some_calls()
    scene.kill("worker")
    scene.node.processes["worker"].wait()
    root = scene.node.root_dir
    candidates = [*root.glob("pods/*/pod.json"), *root.glob("pods/*/observed.json")]
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
