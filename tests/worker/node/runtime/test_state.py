"""What does a node report of its container runtime, and what of it keeps the node from being Ready?"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.cri.v1 import api_pb2 as cri
from worker.daemon.node_lock import hold_node_lock
from worker.node.object.features import declared_features, node_features, runtime_handlers
from worker.node.process.peers import GRACE_SECONDS, PeerProcesses
from worker.node.runtime.images import listed_images
from worker.node.runtime.state import RuntimeState, with_status
from worker.settings.kubelet.feature_gates import FeatureGates

NOW = datetime(2026, 11, 22, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)


def answer(*conditions: tuple[str, bool], **more: Any) -> cri.StatusResponse:
    """Return a runtime's status response."""
    found = [cri.RuntimeCondition(type=kind, status=holds, reason="R", message="m") for kind, holds in conditions]
    return cri.StatusResponse(status=cri.RuntimeStatus(conditions=found), **more)


READY = answer(("RuntimeReady", True), ("NetworkReady", True))
NO_NETWORK = answer(("RuntimeReady", True), ("NetworkReady", False))
NO_RUNTIME = answer(("RuntimeReady", False), ("NetworkReady", True))


@pytest.mark.parametrize(
    ("answers", "at", "troubles"),
    [
        pytest.param(
            [],
            NOW,
            ("container runtime status check may not have completed yet", "network state unknown"),
            id="never-heard",
        ),
        pytest.param([READY], NOW, (), id="ready"),
        pytest.param([READY], LATER - timedelta(seconds=1), (), id="silent-for-less-than-half-a-minute"),
        pytest.param([READY], LATER, ("container runtime is down",), id="silent-for-half-a-minute"),
        pytest.param(
            [NO_NETWORK],
            NOW,
            ("container runtime network not ready: NetworkReady=false reason:R message:m",),
            id="no-network",
        ),
        pytest.param(
            [READY, NO_RUNTIME],
            LATER,
            ("container runtime is down", "container runtime not ready: RuntimeReady=false reason:R message:m"),
            id="says-that-it-is-not-ready-for-half-a-minute",
        ),
        pytest.param(
            [answer()],
            NOW,
            (
                "container runtime status check may not have completed yet",
                "container runtime not ready: <nil>",
                "container runtime network not ready: <nil>",
            ),
            id="says-nothing-of-it",
        ),
        pytest.param([NO_RUNTIME, NO_NETWORK, READY], NOW, (), id="ready-again"),
    ],
)
def test_what_is_wrong(answers: list[cri.StatusResponse], at: datetime, troubles: tuple[str, ...]) -> None:
    """In the kubelet's words and order."""
    state = RuntimeState()
    for one in answers:
        state = with_status(state, one, NOW)
    assert state.troubles(at) == troubles


def test_handlers_and_features_are_told() -> None:
    """Sorted, so that the order of a response does not change the status."""
    handlers = [
        cri.RuntimeHandler(name="runc", features=cri.RuntimeHandlerFeatures(user_namespaces=True)),
        cri.RuntimeHandler(name=""),
    ]
    features = cri.RuntimeFeatures(supplemental_groups_policy=True)
    told = answer(("RuntimeReady", True), ("NetworkReady", True), runtime_handlers=handlers, features=features)
    state = with_status(RuntimeState(), told, NOW)
    assert runtime_handlers(state) == [
        {"name": "", "features": {"recursiveReadOnlyMounts": False, "userNamespaces": False}},
        {"name": "runc", "features": {"recursiveReadOnlyMounts": False, "userNamespaces": True}},
    ]
    assert node_features(state) == {"supplementalGroupsPolicy": True}
    assert node_features(with_status(state, READY, NOW)) is None, "an old runtime says nothing of it"


def test_only_what_is_done_is_declared() -> None:
    """Sorted, by gate; ExtendWebSocketsToKubelet never, whatever its gate."""
    assert declared_features(FeatureGates()) == (
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    )
    assert declared_features(FeatureGates({"RestartAllContainersOnContainerExits": False})) == (
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
    )
    assert "ExtendWebSocketsToKubelet" not in declared_features(FeatureGates({"ExtendWebSocketsToKubelet": True}))
    assert declared_features(FeatureGates({"NodeDeclaredFeatures": False})) == ()


@pytest.mark.parametrize(
    ("most", "sizes"),
    [
        pytest.param(-1, [30, 20, 10], id="all"),
        pytest.param(2, [30, 20], id="the-largest"),
        pytest.param(0, [], id="none"),
        pytest.param(9, [30, 20, 10], id="fewer-than-may-be"),
    ],
)
def test_the_largest_images_are_listed(most: int, sizes: list[int]) -> None:
    """Up to nodeStatusMaxImages."""
    images = [cri.Image(id=str(size), size=size) for size in (10, 30, 20)]
    assert [one["sizeBytes"] for one in listed_images(images, most)] == sizes


def test_an_image_has_five_names_at_most_digests_first() -> None:
    """As the kubelet lists them."""
    image = cri.Image(id="i", size=1, repo_tags=[f"t{n}" for n in range(5)], repo_digests=["d0", "d1"])
    assert listed_images([image], -1)[0]["names"] == ["d0", "d1", "t0", "t1", "t2"]


def test_a_process_that_does_not_run_is_named_after_a_while(tmp_path: Path) -> None:
    """A restart is tolerated; a process that holds its lock again is healthy at once."""
    now = [0.0]
    processes = PeerProcesses(tmp_path, lambda: now[0])
    with hold_node_lock(tmp_path, "poller"):
        now[0] = GRACE_SECONDS - 1
        assert processes.troubles() == ()
        now[0] = GRACE_SECONDS
        assert processes.troubles() == ("tempolet worker is not running",)
        with hold_node_lock(tmp_path, "worker"):
            assert processes.troubles() == ()
        now[0] += GRACE_SECONDS - 1
        assert processes.troubles() == ()
    now[0] += GRACE_SECONDS
    assert processes.troubles() == ("tempolet worker is not running", "tempolet poller is not running")
