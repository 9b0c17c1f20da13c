"""Does the merged status keep the fields of others, and nothing that ended restart?"""

from typing import Any

import pytest

from worker.status.merge import merge_status
from worker.status.normalize import normalize, same

EARLIER, LATER = "2026-01-02T03:04:05Z", "2026-01-02T03:09:09Z"


def condition(name: str, status: str = "True", at: str = EARLIER, **more: Any) -> dict[str, Any]:
    """Return a condition."""
    return {"type": name, "status": status, "lastTransitionTime": at, **more}


def statuses(**states: str) -> list[dict[str, Any]]:
    """Return a container status for each name."""
    return [{"name": name, "state": {state: {}}} for name, state in states.items()]


@pytest.mark.parametrize(
    ("api", "ours", "stopped", "expected"),
    [
        pytest.param(
            {"phase": "Pending"}, {"phase": "Running"}, False, {"phase": "Running"}, id="what-we-say-is-written"
        ),
        pytest.param(
            {"resourceClaimStatuses": [{"name": "a"}], "extendedResourceClaimStatus": {"x": 1}},
            {"phase": "Running"},
            False,
            {"phase": "Running", "resourceClaimStatuses": [{"name": "a"}], "extendedResourceClaimStatus": {"x": 1}},
            id="claims-belong-to-others",
        ),
        pytest.param(
            {"nominatedNodeName": "elsewhere", "resize": "Proposed"},
            {"phase": "Running"},
            False,
            {"phase": "Running"},
            id="what-nobody-says-any-more-goes",
        ),
        pytest.param(
            {"startTime": EARLIER}, {"startTime": LATER}, False, {"startTime": EARLIER}, id="the-start-time-stays"
        ),
        pytest.param(
            {"observedGeneration": 3},
            {"observedGeneration": 2},
            False,
            {"observedGeneration": 3},
            id="the-observed-generation-never-falls",
        ),
        pytest.param(
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
            {"phase": "Failed"},
            True,
            {"phase": "Failed", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
            id="a-pod-that-is-over-keeps-its-address",
        ),
        pytest.param(
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
            {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]},
            False,
            {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]},
            id="a-new-sandbox-has-a-new-address",
        ),
        pytest.param(
            {"phase": "Running"},
            {"phase": "Succeeded", "reason": "Done"},
            False,
            {"phase": "Running"},
            id="an-end-waits-until-nothing-can-run",
        ),
        pytest.param(
            {"phase": "Running"},
            {"phase": "Succeeded"},
            True,
            {"phase": "Succeeded"},
            id="an-end-is-told-when-all-is-over",
        ),
        pytest.param(
            {"phase": "Failed"}, {"phase": "Running"}, False, {"phase": "Failed"}, id="a-failed-pod-stays-failed"
        ),
        pytest.param(
            {"phase": "Succeeded"},
            {"phase": "Failed"},
            True,
            {"phase": "Succeeded"},
            id="a-succeeded-pod-does-not-fail",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "by another"},
            {"phase": "Failed"},
            True,
            {"phase": "Failed", "reason": "Evicted", "message": "by another"},
            id="why-it-failed-is-kept-as-somebody-else-said-it",
        ),
        pytest.param(
            {"phase": "Pending", "reason": "Old"},
            {"phase": "Running"},
            False,
            {"phase": "Running"},
            id="a-reason-goes-with-its-phase",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": statuses(a="terminated", b="running")},
            {"phase": "Running", "containerStatuses": statuses(a="running", b="terminated")},
            False,
            {"phase": "Failed", "containerStatuses": statuses(a="terminated", b="terminated")},
            id="a-container-of-an-ended-pod-does-not-come-back",
        ),
    ],
)
def test_merge(api: dict[str, Any], ours: dict[str, Any], stopped: bool, expected: dict[str, Any]) -> None:
    """Each row is one rule of mergePodStatus, updateStatusInternal or generateAPIPodStatus."""
    new = merge_status(normalize(api), normalize(ours), stopped=stopped)
    assert new.pop("conditions") == []
    assert new == expected


GATE, CLAIMED = condition("example.com/gate", "False"), condition("DisruptionTarget", reason="DeletionByTaintManager")


@pytest.mark.parametrize(
    ("api", "ours", "ends", "expected"),
    [
        pytest.param([GATE], [condition("Ready")], False, [GATE, condition("Ready")], id="a-gate-of-others-is-kept"),
        pytest.param(
            [GATE],
            [condition("example.com/gate", "True"), condition("Ready")],
            False,
            [GATE, condition("Ready")],
            id="what-we-remember-of-a-gate-is-never-written",
        ),
        pytest.param([], [condition("example.com/gate")], False, [], id="nor-made-anew-when-others-have-removed-it"),
        pytest.param(
            [condition("PodScheduled", at=EARLIER)],
            [condition("PodScheduled", at=LATER)],
            False,
            [condition("PodScheduled", at=EARLIER)],
            id="a-status-that-stays-keeps-its-time",
        ),
        pytest.param(
            [condition("Ready", "False", at=EARLIER)],
            [condition("Ready", "True", at=LATER)],
            False,
            [condition("Ready", "True", at=LATER)],
            id="a-status-that-turns-has-a-new-time",
        ),
        pytest.param(
            [condition("PodResizePending"), condition("Ready")],
            [condition("Ready")],
            False,
            [condition("Ready")],
            id="a-condition-of-ours-that-is-over-goes",
        ),
        pytest.param([CLAIMED], [], False, [CLAIMED], id="a-disruption-by-others-is-kept"),
        pytest.param([], [condition("DisruptionTarget")], False, [], id="ours-is-not-told-while-anything-runs"),
        pytest.param(
            [CLAIMED],
            [condition("DisruptionTarget", reason="TerminationByKubelet")],
            True,
            [condition("DisruptionTarget", reason="TerminationByKubelet")],
            id="ours-replaces-another-one-with-the-end",
        ),
    ],
)
def test_conditions(api: list[Any], ours: list[Any], ends: bool, expected: list[Any]) -> None:
    """Conditions have owners: the node's are written, others' are left alone."""
    new = merge_status(
        {"phase": "Running", "conditions": api},
        {"phase": "Failed" if ends else "Running", "conditions": ours},
        stopped=ends,
    )
    assert new["conditions"] == expected


def test_a_mirror_shows_a_static_pod_that_starts_again() -> None:
    """Its manifest came back under the same UID, so what the mirror showed was the end of an earlier run."""
    api = {"phase": "Failed", "containerStatuses": statuses(a="terminated")}
    ours = {"phase": "Running", "containerStatuses": statuses(a="running"), "conditions": []}
    new = merge_status(normalize(api), normalize(ours), stopped=False, mirror=True)
    assert (new["phase"], new["containerStatuses"]) == ("Running", normalize(ours)["containerStatuses"])


def test_an_ended_pod_is_never_ready() -> None:
    """Otherwise clients would send traffic to it when the end and an earlier readiness meet in one status."""
    ours: dict[str, Any] = {
        "phase": "Running",
        "conditions": [condition("Ready"), condition("ContainersReady"), condition("Initialized")],
    }
    new = merge_status({"phase": "Succeeded"}, ours, stopped=False)
    told = {one["type"]: (one["status"], one.get("reason")) for one in new["conditions"]}
    assert told == {
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "Initialized": ("True", None),
    }
    assert [one["status"] for one in ours["conditions"]] == ["True"] * 3, (
        "what a workflow has published is not ours to change"
    )


def test_a_status_is_written_as_the_api_gives_it_back() -> None:
    """Otherwise each comparison would find a difference and patch it again."""
    ours = {
        "startTime": "2026-01-02T03:04:05.678901Z",
        "reason": None,
        "containerStatuses": [
            {"name": "b", "state": {"running": {"startedAt": "2026-01-02T03:04:05.678901+00:00"}}, "lastState": {}},
            {
                "name": "a",
                "allocatedResources": {"cpu": "0.5", "memory": "1024Mi"},
                "state": {"waiting": {"message": None}},
            },
        ],
        "initContainerStatuses": [{"name": "z"}, {"name": "y"}],
    }
    assert normalize(ours) == {
        "startTime": EARLIER,
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": "500m", "memory": "1Gi"}, "state": {"waiting": {}}},
            {"name": "b", "state": {"running": {"startedAt": EARLIER}}, "lastState": {}},
        ],
        "initContainerStatuses": [{"name": "z"}, {"name": "y"}],
    }


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param({"a": {}, "b": []}, {}, True, id="empty-is-absent"),
        pytest.param({"a": ""}, {}, True, id="an-empty-word-is-absent"),
        pytest.param({"a": 0}, {}, False, id="nought-is-said"),
        pytest.param({"a": False}, {}, False, id="no-is-said"),
        pytest.param([{"a": 1}], [{"a": 2}], False, id="lists-are-looked-into"),
    ],
)
def test_same(one: Any, other: Any, alike: bool) -> None:
    """What the API omits is not patched again and again."""
    assert same(one, other) is alike
