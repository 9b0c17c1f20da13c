"""The API server of a node of a cluster: away, or there and away by turns."""

import contextlib
import time
from collections.abc import Iterator

from tests.chaos.node.scene import Scene


@contextlib.contextmanager
def api_server_away(scene: Scene) -> Iterator[None]:
    """Connections break and new ones are refused, or nothing is answered any more; a process of the node is killed meanwhile, or not."""
    yield
    scene.after_some_calls()
    away = scene.api.refusing if scene.rng.random() < 0.5 else scene.api.hanging
    scene.note(f"the API server is away: {away.__name__}")
    with away():
        if (role := scene.rng.choice(["worker", "poller", "node", ""])) != "":
            time.sleep(1)
            scene.kill(role)
            scene.back(role)
        time.sleep(scene.rng.choice([2, 10]))
    scene.note("the API server is back")


@contextlib.contextmanager
def api_server_flaps(scene: Scene) -> Iterator[None]:
    """Connections break, and new ones are refused, again and again."""
    yield
    for _ in range(6):
        with scene.api.refusing():
            scene.note("the API server is away")
            time.sleep(scene.rng.uniform(0.1, 1.5))
        scene.note("the API server is back")
        time.sleep(scene.rng.uniform(0.1, 1.5))
