"""The way to a Temporal that is there: it refuses, is slow, loses replies, or its connections break.

The node must tell a Temporal that errs from one that is away: either may lead to a change
of lead, and neither to a difference.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from tests.chaos.node.scene import Scene
from tests.chaos.node.temporal_proxy import Trouble

LASTS: Final = 8.0
"""Seconds; longer than the node waits before it leads its pods."""


@contextlib.contextmanager
def temporal_errs(scene: Scene) -> Iterator[None]:
    """A part of the calls to Temporal fails, before or after its effect."""
    with _in_trouble(scene, Trouble(refused=scene.rng.choice([0.05, 0.3]), lost=scene.rng.choice([0.0, 0.1]))):
        yield
        time.sleep(LASTS)


@contextlib.contextmanager
def temporal_slow(scene: Scene) -> Iterator[None]:
    """Every call to Temporal takes longer: less than a workflow task may, or about as long."""
    with _in_trouble(scene, Trouble(seconds=scene.rng.choice([0.5, 2.0]))):
        yield
        time.sleep(LASTS)


@contextlib.contextmanager
def temporal_connections_break(scene: Scene) -> Iterator[None]:
    """The connections to Temporal end again and again, with the calls under way."""
    yield
    for _ in range(5):
        scene.way_to_temporal.break_connections()
        scene.note("connections to Temporal broke")
        time.sleep(scene.rng.choice([0.2, 1.0, 3.0]))


@contextlib.contextmanager
def _in_trouble(scene: Scene, trouble: Trouble) -> Iterator[None]:
    proxy = scene.way_to_temporal
    proxy.trouble = trouble
    scene.note(f"Temporal: {trouble}")
    try:
        yield
    finally:
        proxy.trouble = Trouble()
        scene.note(f"calls to Temporal pass again; {proxy.struck} were struck")
