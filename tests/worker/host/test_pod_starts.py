"""How long did a pod's start take, by the definition of the pod startup latency SLI?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot
from worker.host.pod_starts import PodStarts, is_stateful, pull_seconds
from worker.telemetry.kubelet.pods import Start

CREATED = datetime(2026, 11, 28, 9, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time after the pod's creation."""
    return CREATED + timedelta(seconds=seconds)


def span(begin: float, end: float) -> tuple[datetime, datetime]:
    """Return a time span after it."""
    return at(begin), at(end)


def status(*running: bool, init: tuple[float, float] | None = None) -> dict[str, Any]:
    """Return a status with these containers, and an init container that has ended."""
    states: list[dict[str, Any]] = [
        {"running": {"startedAt": at(5).isoformat()}} if one else {"waiting": {}} for one in running
    ]
    found: dict[str, Any] = {"containerStatuses": [{"name": f"c{n}", "state": one} for n, one in enumerate(states)]}
    if init:
        begin, end = (at(one).isoformat() for one in init)
        ended = {"terminated": {"startedAt": begin, "finishedAt": end, "exitCode": 0}}
        found["initContainerStatuses"] = [{"name": "setup", "state": ended}]
    return found


def snapshot(source: str = "api", phase: str = "Pending", **spec: Any) -> PodSnapshot:
    """Return a pod that is new."""
    pod = {"metadata": {"name": "web", "creationTimestamp": "2026-11-28T09:00:00Z"}, "spec": {"containers": [], **spec}}
    return PodSnapshot("pod/n/d/web/u", "n", "d", "web", "u", source, "", "sync", phase, pod=pod)


def started(
    new: PodSnapshot, *statuses: dict[str, Any], pulls: tuple[tuple[datetime, datetime], ...] = ()
) -> list[Start]:
    """Follow a pod, and return the starts that its statuses show ten seconds after its creation."""
    starts = PodStarts()
    starts.follow(new)
    for one in pulls:
        starts.pulled(new.uid, one)
    found = [starts.started(replace(new, status=one), at(10)) for one in statuses]
    return [one for one in found if one]


@pytest.mark.parametrize(
    ("new", "shown", "pulls", "starts"),
    [
        pytest.param(snapshot(), status(True), (), [Start(10, 10, False, False)], id="plain"),
        pytest.param(snapshot(), status(True), (span(1, 4),), [Start(10, 7, False, False)], id="less-pulls"),
        pytest.param(
            snapshot(), status(True, init=(2, 5)), (), [Start(10, 7, False, False)], id="less-init-containers"
        ),
        pytest.param(snapshot(), status(True, False), (), [], id="one-does-not-run-yet"),
        pytest.param(snapshot(), status(), (), [], id="no-status-yet"),
        pytest.param(snapshot("file"), status(True), (), [], id="a-static-pod"),
        pytest.param(snapshot(hostNetwork=True), status(True), (), [Start(10, 10, False, True)], id="host-network"),
        pytest.param(
            snapshot(volumes=[{"name": "v", "hostPath": {}}]),
            status(True),
            (),
            [Start(10, 10, True, False)],
            id="stateful",
        ),
    ],
)
def test_a_start(
    new: PodSnapshot, shown: dict[str, Any], pulls: tuple[tuple[datetime, datetime], ...], starts: list[Start]
) -> None:
    """In seconds since the creation."""
    assert started(new, shown, pulls=pulls) == starts


def test_only_the_first_start_counts() -> None:
    """Not that of a container which starts again."""
    assert len(started(snapshot(), status(False), status(True), status(False), status(True))) == 1


def test_a_pod_that_ends_before_it_ran() -> None:
    """It has no start, and is not followed any longer."""
    starts = PodStarts()
    starts.follow(snapshot())
    assert starts.started(snapshot(phase="Failed"), at(1)) is None
    assert starts.started(replace(snapshot(), status=status(True)), at(2)) is None


def test_a_pod_of_an_earlier_worker() -> None:
    """When it was created is known, but not what was pulled for it."""
    assert PodStarts().started(replace(snapshot(), status=status(True)), at(2)) is None


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([span(1, 3), span(5, 6)], 3, id="one-after-the-other"),
        pytest.param([span(1, 4), span(2, 6)], 5, id="overlapping"),
        pytest.param([span(1, 9), span(2, 3)], 8, id="inside"),
        pytest.param([span(5, 6), span(1, 3)], 3, id="in-any-order"),
    ],
)
def test_pulls_that_overlap_count_once(spans: list[tuple[datetime, datetime]], seconds: float) -> None:
    """CalculateImagePullingTime."""
    assert pull_seconds(spans) == seconds


@pytest.mark.parametrize(
    ("kind", "stateful"),
    [
        *(pytest.param(one, False, id=one) for one in ("secret", "configMap", "downwardAPI", "emptyDir", "projected")),
        *(pytest.param(one, True, id=one) for one in ("hostPath", "persistentVolumeClaim", "csi", "image")),
    ],
)
def test_volumes_that_make_a_pod_stateful(kind: str, *, stateful: bool) -> None:
    """IsStatefulPod."""
    assert is_stateful({"volumes": [{"name": "v", kind: {}, "nfs": None}]}) is stateful
