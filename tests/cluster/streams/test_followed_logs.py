"""Does `kubectl logs -f` lose and repeat nothing while the node rotates the log?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.kubectl import Kubectl
from tests.node.tempolet_node import STARTS_WITHIN, pod_manifest

FILES: Final = 3
KEYS: Final = {"containerLogMaxSize": "2Ki", "containerLogMaxFiles": FILES, "containerLogMonitorInterval": "3s"}
LINES: Final = 1500
COUNT: Final = f"""
echo 0
until test -e /go/now; do usleep 10000; done
i=0; while test $i -lt {LINES}; do i=$((i+1)); echo $i; usleep 5000; done
until test -e /go/end; do usleep 10000; done
"""


@pytest.fixture(scope="module")
def rotating_node(tmp_path_factory: pytest.TempPathFactory, new_node: NewNode) -> Iterator[ClusterNode]:
    """Run one node whose logs are rotated often."""
    with new_node(tmp_path_factory.mktemp("rotating"), keys=dict(KEYS)) as made:
        made.until_started()
        yield made


def test_every_line_comes_once_and_in_order(rotating_node: ClusterNode, plane: ControlPlane, tmp_path: Path) -> None:
    """Through two rotations and until the container exits; it starts to count once it is followed.

    It exits after the rotations: one that its exit interrupts has removed the oldest file, and adds none.
    """
    kubectl = Kubectl(plane.admin_kubeconfig, tmp_path)
    container = pod_manifest("counts", COUNT)["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "go", "mountPath": "/go"}]
    spec: dict[str, Any] = {
        "containers": [container],
        "volumes": [{"name": "go", "emptyDir": {}}],
        "restartPolicy": "Never",
    }
    uid = rotating_node.run_pod("counts", **spec)["metadata"]["uid"]
    place = rotating_node.logs / f"default_counts_{uid}" / "main"
    with kubectl.started("logs", "-f", "counts") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"0\n"
        go = rotating_node.root_dir / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "go"
        (go / "now").touch()
        rotating_node.until(lambda: len(list(place.glob("0.log.*"))) == FILES - 1, "rotated, and more than once")
        (go / "end").touch()
        said, _ = following.communicate(timeout=STARTS_WITHIN)
    assert [int(line) for line in said.split()] == list(range(1, LINES + 1))
