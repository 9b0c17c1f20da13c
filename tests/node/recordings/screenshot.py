"""Takes the screenshots of the Temporal UI for the documentation. Run by `make screenshot`, never by `make test`.

A node with four pods in different states; one of them has three init containers and has crashed once.
"""

from pathlib import Path

import pytest

from tests.node.standalone.browser import Browser, browser, missing_browser
from tests.node.standalone.shown_node import (
    INIT,
    choose_columns,
    crash,
    list_url,
    pod_url,
    shop_manifest,
    shown_node,
    sign_in,
)
from tests.node.tempolet_node import TempoletNode, pod_manifest
from worker.standalone.containerd import Containerd

PICTURES = Path(__file__).parents[3] / "docs"
LARGEST = 250 * 1024
PLACE = Path("/tmp/tempolet-screenshot")  # it appears in the pod's details, so it must not identify the machine


@pytest.mark.skipif(bool(missing_browser()), reason=missing_browser())
def test_take_pictures(containerd: Containerd) -> None:
    """Bring the pods into their states, and take both pictures."""
    with shown_node(PLACE, containerd, "node-1") as node, browser() as window:
        lead_pods(node)
        sign_in(window, node)
        shop = crash(node, "shop")
        window.size(1750, 1300, scale=0.8)
        window.show(pod_url(node, shop, "timeline"), lambda text: all(name in text for name in INIT), "the timeline")
        keep(window, "ui-pod.png")
        window.size(1750, 600, scale=0.8)
        choose_columns(window, node)
        window.show(list_url(node, "PodNode = 'node-1'"), lambda text: "ImagePullBackOff" in text, "the pods")
        keep(window, "ui-list.png")


def lead_pods(node: TempoletNode) -> None:
    """Start pods that end up in different states."""
    lost = pod_manifest("api")
    lost["spec"]["containers"][0]["image"] = "127.0.0.1:1/api:2"
    for manifest in (lost, pod_manifest("import", "exit 1"), pod_manifest("web"), shop_manifest()):
        node.apply(manifest)
    node.until_pod("api", lambda one: one.reason == "ImagePullBackOff")
    node.until_pod("import", lambda one: one.reason == "CrashLoopBackOff")
    node.until_running("web")


def keep(window: Browser, name: str) -> None:
    """Save a picture of the window."""
    picture = window.picture()
    assert len(picture) <= LARGEST, f"{name} has {len(picture)} bytes, more than {LARGEST}"
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / name).write_bytes(picture)
