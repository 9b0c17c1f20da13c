"""Is a running pod's token renewed at four fifths of its lifetime, without an effect on the pod?"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from activities.objects.tokens import JITTER
from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects.short_tokens import short_tokens
from tests.cluster.objects.test_contents_from_api import payload, volume

LIFE: Final = timedelta(seconds=30)
"""The renewal is drawn from the ten seconds before four fifths of it, long after the pod has started."""
FOUR_FIFTHS: Final = 0.8
SECOND: Final = timedelta(seconds=1)
"""Times in tokens are whole seconds."""
PROMPTLY: Final = timedelta(seconds=5)
SHORTEST: Final = {"path": "token", "expirationSeconds": 600}
"""The shortest lifetime in the API; see `short_tokens`."""


@pytest.fixture(scope="module")
def hasty_node(
    tmp_path_factory: pytest.TempPathFactory, new_node: NewNode, plane: ControlPlane
) -> Iterator[ClusterNode]:
    """Run one node whose tokens expire soon."""
    node = new_node(tmp_path_factory.mktemp("hasty"))
    with short_tokens(plane, node.name, LIFE) as node.kubeconfig, node:
        node.until_started()
        yield node


def written(file: Path) -> datetime:
    """Return a file's modification time."""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def test_a_token_is_renewed_while_its_pod_runs(hasty_node: ClusterNode) -> None:
    """When it is due and not before, by the worker itself; the API accepts the new one, and the container keeps running."""
    source = {"sources": [{"serviceAccountToken": SHORTEST}]}
    volumes = [{"name": "robot", "projected": source}]
    hasty_node.until_ready()
    pod = hasty_node.run_pod("bearer", volumes=volumes, automountServiceAccountToken=False)
    uid = pod["metadata"]["uid"]
    token = volume(hasty_node, uid, "projected", "robot") / "token"
    before, first, snapshot = token.read_text(), written(token), hasty_node.until_running("bearer")
    hasty_node.until(lambda: token.read_text() != before, "another token in the volume", LIFE.total_seconds())
    old, new = payload(before), payload(token.read_text())
    assert written(token) - datetime.fromtimestamp(old["iat"], UTC) >= LIFE * FOUR_FIFTHS - JITTER - SECOND
    assert written(token) - first <= LIFE * FOUR_FIFTHS + PROMPTLY
    assert new["iat"] > old["iat"]
    assert new["kubernetes.io"]["pod"] == {"name": "bearer", "uid": uid}
    asked = {"spec": {"token": token.read_text()}}
    review = hasty_node.api.create("/apis/authentication.k8s.io/v1/tokenreviews", asked)["status"]
    assert review["user"]["username"] == "system:serviceaccount:default:default"
    assert hasty_node.until_running("bearer").containers == snapshot.containers
