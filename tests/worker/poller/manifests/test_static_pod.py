"""Does a manifest's pod get the UID, name and annotations that the kubelet gives it?"""

import copy
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from worker.poller.manifests.static_pod import Placing, place_static_pod, static_pod_uid

PATH = Path("/etc/kubernetes/manifests/web.yaml")
NOW = datetime(2026, 11, 21, 12, 0, 0, 5, tzinfo=UTC)
ORIGIN = f"host:n1file:{PATH}"
PINNED = "ebd01db9e88bd6e5f9ae71434c1cf696"
NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Build a pod before it is placed."""
    return {"metadata": {"name": "web"} | (metadata or {}), "spec": spec}


def test_marks() -> None:
    """Name, namespace, node, annotations; and the pod that was given stays as it is."""
    given = pod({"annotations": {"a": "b", "kubernetes.io/config.source": "api"}}, nodeName="other")
    before = copy.deepcopy(given)
    placed = place_static_pod(PATH, given, Placing("Node1", NOW))
    assert given == before
    assert placed.pod["metadata"] == {
        "name": "web-node1",
        "namespace": "default",
        "uid": placed.uid,
        "annotations": {
            "a": "b",
            "kubernetes.io/config.hash": placed.uid,
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.seen": "2026-11-21T12:00:00.000005000Z",
        },
    }
    assert placed.pod["spec"]["nodeName"] == "Node1"
    assert (placed.namespace, placed.name) == ("default", "web-node1")


def test_what_the_manifest_says_of_itself_stays() -> None:
    """An own UID and namespace are kept; the annotation repeats the UID."""
    placed = place_static_pod(PATH, pod({"uid": "my-uid", "namespace": "kube-system"}), Placing("n1", NOW))
    assert (placed.uid, placed.namespace) == ("my-uid", "kube-system")
    assert placed.own_uid
    assert not place_static_pod(PATH, pod(), Placing("n1", NOW)).own_uid
    assert placed.pod["metadata"]["annotations"]["kubernetes.io/config.hash"] == "my-uid"


def test_seen_is_told_in_utc() -> None:
    """The same moment is always written the same way, whatever the node's time zone."""
    local = NOW.astimezone(timezone(timedelta(hours=2)))
    assert place_static_pod(PATH, pod(), Placing("n1", local)) == place_static_pod(PATH, pod(), Placing("n1", NOW))


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], [NO_EXECUTE], id="added"),
        pytest.param([NO_EXECUTE], [NO_EXECUTE], id="not-twice"),
        pytest.param([NO_EXECUTE | {"tolerationSeconds": 5}], [NO_EXECUTE], id="without-its-time-limit"),
        pytest.param([{"key": "a"} | NO_EXECUTE], [{"key": "a"} | NO_EXECUTE, NO_EXECUTE], id="beside-others"),
        pytest.param(
            [{"key": "", "operator": "Exists", "value": "", "effect": "NoExecute"}],
            [NO_EXECUTE],
            id="empty-text-is-unset",
        ),
    ],
)
def test_toleration(tolerations: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """A static pod stays on a node in trouble."""
    assert (
        place_static_pod(PATH, pod(tolerations=tolerations), Placing("n1", NOW)).pod["spec"]["tolerations"] == expected
    )


def test_uid_is_the_fnv_hash_of_pod_node_and_file() -> None:
    """FNV-1a of 128 bits; the digits are pinned, for running pods are found again by them after an upgrade."""
    assert static_pod_uid(pod(), ORIGIN) == PINNED
    assert static_pod_uid({"spec": {}, "metadata": {"name": "web"}}, ORIGIN) == PINNED, "the order of keys is nothing"
