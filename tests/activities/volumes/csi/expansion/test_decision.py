"""Does the node expand a volume when the kubelet would, and does the claim's status say so in the kubelet's words?"""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activities.volumes.csi.expansion import claim_status
from activities.volumes.csi.expansion.decision import (
    NOT_REQUIRED,
    Failure,
    Verdict,
    failure_of,
    may_need_expansion,
    needed_expansion,
)

NOW = datetime(2026, 11, 29, 4, 0, tzinfo=UTC)
PENDING, IN_PROGRESS, INFEASIBLE = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"
OTHER = {"type": "ModifyingVolume", "status": "True"}
ERROR = {"type": "NodeResizeError", "status": "True", "lastTransitionTime": "2026-11-29T04:00:00Z"}


def volume(capacity: str = "2Gi") -> dict[str, Any]:
    """Return a PersistentVolume of a size."""
    return {"spec": {"capacity": {"storage": capacity}}}


def claim(
    has: str = "1Gi",
    state: str = "",
    allocated: str = "",
    asked: str = "2Gi",
    modes: str = "ReadWriteOnce",
    **notes: str,
) -> dict[str, Any]:
    """Return a claim with a status."""
    status: dict[str, Any] = {"capacity": {"storage": has}}
    if state:
        status["allocatedResourceStatuses"] = {"storage": state}
    if allocated:
        status["allocatedResources"] = {"storage": allocated}
    return {
        "metadata": {"name": "c", "namespace": "d", "resourceVersion": "7", "annotations": notes},
        "spec": {"resources": {"requests": {"storage": asked}}, "accessModes": [modes]},
        "status": status,
    }


@pytest.mark.parametrize(
    ("found", "verdict", "size"),
    [
        pytest.param(claim("2Gi"), Verdict.FITS, "", id="it-fits"),
        pytest.param(claim("3Gi", PENDING, "3Gi"), Verdict.FITS, "", id="it-is-larger"),
        pytest.param(claim("2048Mi"), Verdict.FITS, "", id="the-same-in-another-unit"),
        pytest.param(claim(), Verdict.EXPAND, "2Gi", id="an-old-controller-says-nothing"),
        pytest.param(claim(state=PENDING, allocated="2Gi"), Verdict.EXPAND, "2Gi", id="pending"),
        pytest.param(claim(state=IN_PROGRESS, allocated="2Gi"), Verdict.EXPAND, "2Gi", id="a-crash-in-the-middle"),
        pytest.param(claim(state=PENDING, allocated="1536Mi"), Verdict.EXPAND, "1536Mi", id="what-is-allocated-counts"),
        pytest.param(claim(state="ControllerResizeInProgress", allocated="2Gi"), Verdict.WAITS, "", id="controller"),
        pytest.param(claim(state=INFEASIBLE, allocated="2Gi"), Verdict.WAITS, "", id="given-up"),
        pytest.param(claim(allocated="2Gi"), Verdict.WAITS, "", id="allocated-but-not-begun"),
        pytest.param({}, Verdict.EXPAND, "2Gi", id="a-claim-without-anything"),
        pytest.param(claim("rubbish"), Verdict.EXPAND, "2Gi", id="a-size-that-is-none"),
    ],
)
def test_while_it_is_mounted(found: dict[str, Any], verdict: Verdict, size: str) -> None:
    """ExpandVolumeDuringMount and runPreCheck."""
    needed = needed_expansion(volume(), found)
    assert (needed.verdict, needed.size) == (verdict, size)


@pytest.mark.parametrize(
    ("found", "known", "verdict"),
    [
        pytest.param(claim("2Gi", allocated="2Gi"), 2 << 30, Verdict.FITS, id="the-node-knows-its-size"),
        pytest.param(claim("2Gi", allocated="2Gi"), 1 << 30, Verdict.DONE, id="expanded-elsewhere"),
        pytest.param(claim("2Gi", allocated="2Gi", modes="ReadWriteMany"), 1 << 30, Verdict.EXPAND, id="of-many-nodes"),
        pytest.param(
            claim("2Gi", allocated="2Gi", modes="ReadWriteMany", **{NOT_REQUIRED: ""}),
            1 << 30,
            Verdict.DONE,
            id="of-many-nodes-that-need-nothing",
        ),
        pytest.param(claim(state=PENDING, allocated="2Gi"), 1 << 30, Verdict.EXPAND, id="pending"),
        pytest.param(claim("2Gi"), 1 << 30, Verdict.EXPAND, id="an-old-controller"),
    ],
)
def test_while_it_is_used(found: dict[str, Any], known: int, verdict: Verdict) -> None:
    """The size that the node knows is compared, not the claim's (GenerateExpandInUseVolumeFunc)."""
    assert needed_expansion(volume(), found, mounted_size=known).verdict is verdict


def test_a_pod_that_only_reads_expands_nothing() -> None:
    """It is told, and goes on."""
    assert needed_expansion(volume(), claim(), read_only=True).verdict is Verdict.READ_ONLY
    assert needed_expansion(volume("1Gi"), claim(), read_only=True).verdict is Verdict.FITS


def test_somebody_has_changed_the_claim_since() -> None:
    """After a second failure the controller takes that up."""
    assert needed_expansion(volume(), claim(state=PENDING, allocated="2Gi", asked="3Gi")).other_size_asked
    assert not needed_expansion(volume(), claim(state=PENDING, allocated="2Gi")).other_size_asked


sizes = st.sampled_from(["", "0", "1Gi", "1536Mi", "2Gi", "3Gi", "x"])
claims = st.builds(
    claim,
    has=sizes,
    state=st.sampled_from(["", PENDING, IN_PROGRESS, INFEASIBLE, "ControllerResizeInProgress", "later"]),
    allocated=sizes,
    asked=sizes,
    modes=st.sampled_from(["ReadWriteOnce", "ReadWriteMany"]),
)


@given(claims, sizes, st.sampled_from([0, 1 << 30, 2 << 30]))
def test_a_claim_that_leaves_nothing_open_needs_no_volume(found: dict[str, Any], asked: str, known: int) -> None:
    """So the volume is read only where it may matter: a volume is never larger than its claim asked or has."""
    found["spec"]["resources"]["requests"]["storage"] = asked
    if not may_need_expansion(found, known):
        assert needed_expansion(volume(asked or "0"), found, mounted_size=known).verdict is Verdict.FITS


@given(claims)
def test_what_is_finished_fits(found: dict[str, Any]) -> None:
    """An expansion is not begun again."""
    needed = needed_expansion(volume(), found)
    if needed.verdict is Verdict.EXPAND and needed.bytes >= 2 << 30:
        patch = claim_status.finished(found, needed.size)["status"]
        after = {**found, "status": {**found["status"], **patch}}
        assert needed_expansion(volume(), after).verdict is Verdict.FITS


@pytest.mark.parametrize(
    ("code", "final", "meaning"),
    [
        pytest.param("Unavailable", False, Failure.TRIED_AGAIN, id="its-end-is-unknown"),
        pytest.param("FailedPrecondition", True, Failure.IN_USE, id="in-use"),
        *(
            pytest.param(code, True, Failure.INFEASIBLE, id=code)
            for code in ("InvalidArgument", "OutOfRange", "NotFound")
        ),
        pytest.param("Internal", True, Failure.FINAL, id="failed"),
    ],
)
def test_what_an_error_means(code: str, final: bool, meaning: Failure) -> None:
    """csi/expander.go inUseError and isInfeasibleError."""
    assert failure_of(code, is_final=final) is meaning


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [], id="none"),
        pytest.param([OTHER, ERROR, {"type": "FileSystemResizePending", "status": "True"}], [OTHER], id="of-resizes"),
    ],
)
def test_a_finished_expansion(before: list[Any], after: list[Any]) -> None:
    """Conditions of resizes go, others stay; the version makes an outdated patch fail."""
    found = claim(state=IN_PROGRESS, allocated="2Gi")
    found["status"]["conditions"] = before
    assert claim_status.finished(found, "2Gi") == {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "capacity": {"storage": "2Gi"},
            "allocatedResourceStatuses": {"storage": None},
            "conditions": after,
        },
    }


def test_a_failed_expansion() -> None:
    """A condition says why; the first reason stays, as under a kubelet."""
    found = claim(state=IN_PROGRESS, allocated="2Gi")
    found["status"]["conditions"] = [OTHER]
    patch = claim_status.failed(found, "x" * 5000, NOW, infeasible=True)["status"]
    assert patch["allocatedResourceStatuses"] == {"storage": INFEASIBLE}
    kept, error = patch["conditions"]
    assert (kept, {**error, "message": ""}) == (OTHER, {**ERROR, "message": ""})
    assert error["message"].startswith("failed to expand pvc with xxx")
    assert len(error["message"]) == claim_status.LONGEST_MESSAGE
    found["status"]["conditions"] = [{**ERROR, "message": "first"}]
    again = claim_status.failed(found, "second", NOW, infeasible=False)["status"]
    assert again == {"conditions": [{**ERROR, "message": "first"}]}
