"""The network plugin: it fails, hangs, answers garbage, or does half of what it is asked; its configuration is missing."""

import contextlib
import time
from collections.abc import Iterator

from tests.chaos.node.cni_plugin import Does
from tests.chaos.node.scene import Scene


@contextlib.contextmanager
def cni_add_fails(scene: Scene) -> Iterator[None]:
    """Pods get no network at the first tries: an error, or an answer that nobody can read."""
    does = [scene.rng.choice([Does.FAILS, Does.GARBAGE, Does.PARTIAL]) for _ in range(3)]
    yield from _calls(scene, "ADD", *does)


@contextlib.contextmanager
def cni_add_is_partial(scene: Scene) -> Iterator[None]:
    """The address is taken and the link made, and then comes an error; taking it back fails at the first try, too, or not."""
    if scene.rng.random() < 0.5:
        scene.cni.order("DEL", Does.FAILS)
    yield from _calls(scene, "ADD", Does.PARTIAL, scene.rng.choice([Does.PARTIAL, Does.GARBAGE]))


@contextlib.contextmanager
def cni_add_hangs(scene: Scene) -> Iterator[None]:
    """A pod's network hangs, and the worker is killed meanwhile, or not; then the plugin goes on."""
    yield from _hanging(scene, "ADD")


@contextlib.contextmanager
def cni_del_fails(scene: Scene) -> Iterator[None]:
    """A pod's network cannot be taken back at the first tries: nothing was done, or it was and the answer is an error."""
    does = [scene.rng.choice([Does.FAILS, Does.PARTIAL]) for _ in range(3)]
    yield from _calls(scene, "DEL", *does)


@contextlib.contextmanager
def cni_del_hangs(scene: Scene) -> Iterator[None]:
    """Taking a pod's network back hangs, and the worker is killed meanwhile, or not; then the plugin goes on."""
    yield from _hanging(scene, "DEL")


@contextlib.contextmanager
def cni_unconfigured(scene: Scene) -> Iterator[None]:
    """The configuration of the pods' network is missing for some seconds."""
    folder = scene.containerd.places.cni_config
    kept = [(one, one.with_name(f".{one.name}.missing")) for one in folder.glob("*.conflist")]
    for here, away in kept:
        here.rename(away)
    scene.note("the network's configuration is missing")
    try:
        yield
        scene.after_calls(2)
        time.sleep(scene.rng.choice([1, 5]))
    finally:
        for here, away in kept:
            away.rename(here)
        scene.note("the network's configuration is there again")


def _calls(scene: Scene, command: str, *does: Does) -> Iterator[None]:
    for one in does:
        scene.cni.order(command, one)
    scene.note(f"armed: CNI {command} {', '.join(does)}")
    yield
    scene.until_struck(lambda: len(scene.cni.struck()) >= len(does))
    scene.note(f"struck: {scene.cni.struck()}")
    scene.cni.clear()


def _hanging(scene: Scene, command: str) -> Iterator[None]:
    scene.cni.order(command, Does.HANGS)
    scene.note(f"armed: CNI {command} hangs")
    yield
    scene.until_struck(lambda: bool(scene.cni.struck()))
    scene.note(f"struck: {scene.cni.struck()}")
    if scene.rng.random() < 0.5:
        scene.kill("worker")
        scene.back("worker")
    time.sleep(scene.rng.choice([1, 8]))
    scene.cni.clear()
    scene.note("it goes on")
