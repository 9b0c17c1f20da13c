"""The wall clock of the node's processes, which is stepped by an hour."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from tests.chaos.node.scene import Scene
from tests.node.away.stopped_temporal import server_pid

HOUR: Final = 3600


@contextlib.contextmanager
def clock_forward(scene: Scene) -> Iterator[None]:
    """The clock is set an hour forward."""
    yield from _step(scene, HOUR)


@contextlib.contextmanager
def clock_back(scene: Scene) -> Iterator[None]:
    """The clock is set an hour back."""
    yield from _step(scene, -HOUR)


def _step(scene: Scene, seconds: int) -> Iterator[None]:
    """Step it while something else happens, or not; it is set right again, or stays so until the scenario is over."""
    yield
    scene.after_some_calls()
    scene.clock.step(seconds)
    scene.note(f"the clock is {seconds} s ahead")
    match scene.rng.choice(["worker", "Temporal", ""]):
        case "worker":
            scene.kill("worker")
            scene.back("worker")
        case "Temporal":
            with scene.suspended(server_pid(scene.temporal), "Temporal"):
                scene.until_led()
        case _:
            time.sleep(2)
    if scene.rng.random() < 0.5:
        scene.clock.step(0)
        scene.note("the clock is right again")
