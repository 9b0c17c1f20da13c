"""Does a node of a cluster tell that its images' disk stays too full, as a kubelet does?"""

from pathlib import Path

from tests.cluster.cluster_node import NewNode
from tests.cluster.node.test_pressure import events_of

TOO_FULL = {
    "imageGCHighThresholdPercent": 1,
    "imageGCLowThresholdPercent": 0,
    "imageMinimumGCAge": "1h",
    "evictionHard": {},
}


def test_a_disk_that_stays_too_full(tmp_path: Path, new_node: NewNode) -> None:
    """Each look that frees too little is told; the second in a row is a failed collection."""
    with new_node(tmp_path / "node", keys=TOO_FULL, own_keys={"images": {"lookEvery": "1s"}}) as node:
        node.until_ready()
        failed, *_ = node.until(lambda: events_of(node, node.name, "ImageGCFailed"), "a collection that failed twice")
        told, *_ = events_of(node, node.name, "FreeDiskSpaceFailed")
        assert told["type"] == failed["type"] == "Warning"
        assert told["source"]["component"] == "kubelet"
        assert told["message"].startswith("Insufficient free disk space on the node's image filesystem (")
        assert "% of " in told["message"]
        assert "(freed 0 bytes)" in told["message"]
        assert failed["message"].startswith("Insufficient free disk space")
