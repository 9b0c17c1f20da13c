"""Does the verdict on a run of outages find what is wrong, and nothing else?"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.node.away.outages import verdict
from tests.node.away.outages.pod_lives import Life
from tests.node.away.outages.shapes import SHAPES

STARTED = "container main started (0.10 s)"
REASON = ": policy Always after exit 137 Error, without back-off"
STOPPED = "container main stopped: exit 0 Completed, after 0.10 s of 60.0 s grace; why: ManifestRemoved"
STORY = [
    "manifest sidecar.json listed (UID u)",
    "sandbox attempt 0 ready in 0.10 s",
    "container side started (0.10 s)",
    "container side ended: exit 137 Error after 2.00 s",
    f"container side started, restart 1 (0.10 s){REASON}",
    "container side stopped: exit 0 Completed, after 0.10 s of 60.0 s grace; why: ManifestRemoved",
    "postStart of side done in 0.10 s",
    "postStart of side done in 0.10 s",
    "preStop of side done in 0.10 s",
    STARTED,
    "container main ended: exit 137 Error after 2.00 s",
    f"container main started, restart 1 (0.10 s){REASON}",
    STOPPED,
    "deletion requested by file: ManifestRemoved: gone",
    "sandbox stopped (0.10 s)",
    "volume ledger unmounted (0.10 s)",
    "sandbox removed (0.10 s)",
    "directories, logs and cgroup removed (0.10 s)",
    "the pod is gone: Succeeded, restarts 2 (ManifestRemoved: gone)",
]
NO_REASON = [one.replace(REASON, "") for one in STORY]


class Run:
    """One life of a run, whose ledger is as its shape's."""

    def __init__(self, *, is_whole: bool, is_cut_short: bool = False) -> None:
        self.lives = [Life("sidecar", "sidecar", is_cut_short)]
        self.is_whole = is_whole
        self.doubled: list[str] = []
        self.forgotten: set[str] = set()
        self.did = Counter(SHAPES["sidecar"].lines)
        self.ledger = self.node = self

    def is_history_whole(self, _: Life) -> bool:
        """Report whether all of it was kept."""
        return self.is_whole

    def lines(self, _: str) -> Counter[str]:
        """Return what the ledger has."""
        return self.did

    def uids(self) -> dict[str, list[str]]:
        """Return the pod's UID."""
        return {"sidecar": ["u"]}

    def said(self, _: str) -> None:
        """Print nothing."""


def found(monkeypatch: pytest.MonkeyPatch, run: Run, story: Sequence[str]) -> list[str]:
    """Judge a run whose pod's history tells this."""
    monkeypatch.setattr(verdict, "told_of", lambda *_, **__: list(story))
    told: Any = run
    return [one.partition(": ")[2] for one in verdict.findings(told)]


@pytest.mark.parametrize(
    ("is_whole", "story", "expected"),
    [
        pytest.param(True, STORY, [], id="nothing-is-wrong"),
        pytest.param(True, STORY[:3] + STORY[4:], ["not told: side ended: exit 137 Error"], id="a-sentence-is-missing"),
        pytest.param(True, [*STORY, STARTED], ["told once more: main started"], id="one-is-told-twice"),
        pytest.param(False, STORY[5:], [], id="the-begin-is-lost"),
        pytest.param(False, NO_REASON, [], id="the-reason-is-lost"),
        pytest.param(False, ["container main ended: exit 0 Completed", *STORY[13:]], [], id="why-it-ended-is-lost"),
        pytest.param(
            False, [*NO_REASON, STARTED], ["told once more: main started"], id="one-is-told-twice-though-some-is-lost"
        ),
        pytest.param(False, STORY[:-1], ["the history of UID 0 does not end"], id="the-end-is-missing"),
        pytest.param(False, [], ["UID 0 has no history"], id="there-is-no-history"),
    ],
)
def test_what_a_history_tells(
    monkeypatch: pytest.MonkeyPatch, *, is_whole: bool, story: list[str], expected: list[str]
) -> None:
    """One of which Temporal has lost a part may tell less, and never more."""
    assert found(monkeypatch, Run(is_whole=is_whole), story) == expected


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_pod_that_is_deleted_at_any_moment_tells_less(monkeypatch: pytest.MonkeyPatch, *, is_whole: bool) -> None:
    """It is stopped where others are not, and what it does tell it tells once."""
    run = Run(is_whole=is_whole, is_cut_short=True)
    run.did = Counter({"side start": 1})
    stopped = "container side stopped: exit 137 Error, by SIGKILL after its grace of 60.0 s; why: ManifestRemoved"
    assert found(monkeypatch, run, [*STORY[:3], stopped, *STORY[13:]]) == []
    assert found(monkeypatch, run, [*STORY[:3], STORY[2], *STORY[13:]]) == ["told once more: side started"]


def test_a_pod_that_temporal_has_forgotten_needs_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was gone before; its containers and hooks are judged all the same."""
    run = Run(is_whole=False)
    run.forgotten.add("u")
    run.did["side preStop"] += 1
    assert found(monkeypatch, run, []) == ["done once too often: side preStop"]
