"""Which pods of a run without Temporal lack their story, by what the API server showed of them?"""

from collections.abc import Sequence

import pytest

from tests.cluster.conformance.pod_ledger import SeenPod, pods_in
from tests.cluster.conformance.without_temporal import judge

ROW = "default/web|u-1|2026-11-24T13:00:00Z|"
TOLD = ("manifest", "container web started (0.10 s)", "container web started, restart 1 (0.10 s): policy Always")
ENDED = "the pod is gone: Succeeded, restarts 1"


def test_the_ledger_has_each_pod_that_the_node_took() -> None:
    """With the most starts of each container; a pod that was deleted before the node took it is none."""
    lines = ["default/late|u-2||", ROW, f"{ROW}init=0=containerd://i web=0= ", f"{ROW}web=2=containerd://w "]
    assert pods_in(lines) == [SeenPod("default/web", "u-1", {"init": 1, "web": 3})]


def test_a_line_that_was_cut_off_is_left_out() -> None:
    """The API server ended the watch."""
    assert pods_in(["default/web|u-", ""]) == []


def test_a_run_without_pods_shows_nothing() -> None:
    """The ledger is at fault, and says so."""
    assert judge([], {}).wrong


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        pytest.param((*TOLD, ENDED), "", id="whole"),
        pytest.param((), "no history", id="none"),
        pytest.param((*TOLD[:2], ENDED), "2 starts of web, 1 told", id="a-start-is-missing"),
        pytest.param(TOLD, "its end is not told", id="no-end"),
        pytest.param((*TOLD, "2 entries are missing here", ENDED), "2 entries are missing here", id="a-gap"),
        pytest.param(
            (*TOLD, "9 more entries had no room in this history", ENDED),
            "9 more entries had no room in this history",
            id="too-long",
        ),
    ],
)
def test_a_story(texts: Sequence[str], wrong: str) -> None:
    """It tells each start of a container that the API server showed, and the end."""
    stories = judge([SeenPod("default/web", "u-1", {"web": 2})], {"u-1": texts, "u-3": ()})
    assert stories.wrong == ((f"default/web (UID u-1): {wrong}",) if wrong else ())
    assert stories.lines()[-1].startswith(f"1 pods lived without Temporal; the histories of {0 if wrong else 1} tell")
