"""A CSI driver that dies: in the middle of a call, after its effect and before the answer, or between calls."""

import contextlib
import signal
import time
from collections.abc import Iterator

from tests.chaos.node.scene import Scene
from tests.csi.orders import Order

STARTS: tuple[str, ...] = ("NodeStageVolume", "NodePublishVolume")
STOPS: tuple[str, ...] = ("NodeUnpublishVolume", "NodeUnstageVolume")


@contextlib.contextmanager
def csi_driver_killed(scene: Scene) -> Iterator[None]:
    """The driver of a pod's volume dies, and registers again some seconds later; the worker is killed meanwhile, or not."""
    driver, call = scene.driver, ""
    if scene.phase != "running" and scene.rng.random() < 0.7:
        call = scene.rng.choice(STOPS if scene.phase == "deleting" else STARTS)
        driver.folder.order(call, Order(times=driver.folder.count(call) + 1, die=True))
        scene.note(f"armed: the CSI driver dies after {call}")
    yield
    if call:
        scene.until_struck(driver.has_ended)
    else:
        scene.after_some_calls()
    scene.note("the CSI driver has died" if driver.has_ended() else "kill -9 of the CSI driver")
    driver.stop(signal.SIGKILL)
    driver.folder.order(call, None)
    if scene.rng.random() < 0.5:
        scene.kill("worker")
        scene.back("worker")
    time.sleep(scene.rng.choice([0, 4]))
    driver.start()
    scene.note("the CSI driver has registered again")
