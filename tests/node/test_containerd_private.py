"""Does a private containerd come up with its images, run pods, and leave nothing behind?"""

from tests.node.conftest import BUSYBOX
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import PAUSE_IMAGE
from worker.standalone.cri_sweep import CriSweep
from worker.standalone.temporal_server import TemporalServer


def test_network_and_images_are_there(containerd: Containerd) -> None:
    """A pod could start at once: network ready, sandbox image and busybox known to CRI."""
    with CriSweep(containerd.socket) as runtime:
        assert runtime.network_problem() == ""
        assert runtime.has_image(BUSYBOX)
        assert runtime.has_image(PAUSE_IMAGE)


def test_temporal_serves_on_loopback(temporal: TemporalServer) -> None:
    """A second start finds the running one and changes nothing."""
    before = temporal.process.running()
    assert temporal.start() is False
    assert temporal.process.running() == before
