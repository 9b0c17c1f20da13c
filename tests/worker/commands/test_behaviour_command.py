"""Does `tempolet behaviour` say which numbers are in use, and commit the node?"""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.worker.commands.test_reading_commands import Commands, tempolet
from tests.workflows.conftest import client
from worker.behaviours.commitment import FILE, NEWEST, Behaviours, Commitment
from worker.commands.access.exits import Exit
from worker.commands.change.behaviour import notes, table
from workflows.decide.versions import CURRENT, CURRENT_NODE

__all__ = ["client", "tempolet"]  # fixtures of others

OLD = Behaviours(2, 1)
Found = Counter[tuple[str, int | None, bool]]


@pytest.mark.usefixtures("client")
async def test_the_node_is_committed(tempolet: Commands, tmp_path: Path) -> None:
    """What was committed before is told without the option, and nothing is changed then."""
    state = tmp_path / "tempolet"
    state.mkdir()
    (state / FILE).write_text(json.dumps({"pods": 2, "node": 1}))
    words = ("behaviour", "--root-dir", str(tmp_path), "--hostname-override", "empty")
    code, out, _ = await tempolet(*words)
    assert (code, Commitment(state).numbers) == (Exit.DONE, OLD)
    assert f"committed: {OLD}" in out
    assert "tempolet behaviour --commit" in out
    code, out, _ = await tempolet(*words, "--commit")
    assert (code, Commitment(state).numbers) == (Exit.DONE, NEWEST)
    assert f"committed: {NEWEST}" in out
    assert "--commit" not in out


@pytest.mark.usefixtures("client")
async def test_no_node_is_committed_where_none_has_run(tempolet: Commands, tmp_path: Path) -> None:
    """A wrong folder is told, and nothing is made there."""
    code, _, err = await tempolet("behaviour", "--root-dir", str(tmp_path / "elsewhere"), "--commit")
    assert (code, "is it this node's root folder (--root-dir)?" in err) == (Exit.FAILED, True)
    assert not (tmp_path / "elsewhere").exists()


def test_each_number_has_a_row() -> None:
    """Also one of another release, and runs that cannot be read."""
    found: Found = Counter(
        {("pods", 2, True): 3, ("pods", 2, False): 1, ("pods", 99, True): 1, ("node", None, False): 1}
    )
    rows = [line.split(maxsplit=4) for line in table(found)]
    assert [(*row[:4], row[4].partition(":")[0]) for row in rows if row[2:4] != ["0", "0"]][1:] == [
        (
            "pods",
            "2",
            "3",
            "1",
            "the sandbox's activity makes the directories, and images are looked for before any is pulled",
        ),
        ("pods", "99", "1", "0", "unknown to this release"),
        ("node", "?", "0", "1", "unreadable"),
    ]
    assert len(rows) == 1 + CURRENT + CURRENT_NODE + 2


def unused(pods: range, node: range) -> str:
    """Say that no run follows these numbers."""
    numbers = ", ".join((*(f"{one} of pods" for one in pods), *(f"{one} of the node" for one in node)))
    return f"no run within Temporal's retention follows {numbers}: a release without them can run here"


@pytest.mark.parametrize(
    ("committed", "found", "said"),
    [
        pytest.param(
            NEWEST,
            {},
            [
                unused(range(1, CURRENT), range(1, CURRENT_NODE)),
            ],
            id="nobody-follows-the-old-ones",
        ),
        pytest.param(
            NEWEST,
            {("pods", 1, False): 1, ("pods", 2, True): 2, ("node", 1, True): 1},
            [
                "3 open runs are still to be raised: the worker raises one at a time",
                unused(range(3, CURRENT), range(2, CURRENT_NODE)),
            ],
            id="some-do",
        ),
        pytest.param(
            OLD,
            {("pods", 1, False): 1, ("pods", 2, True): 9},
            [
                f"this release knows {NEWEST}; to give up the way back to the previous release: tempolet behaviour --commit"
            ],
            id="not-committed-yet",
        ),
        pytest.param(
            NEWEST,
            {("pods", 1, False): 1, ("pods", 2, False): 1, ("node", 1, False): 1},
            [unused(range(3, CURRENT), range(2, CURRENT_NODE))],
            id="closed-runs-are-kept-for-the-retention",
        ),
    ],
)
def test_what_is_said_of_it(
    committed: Behaviours, found: dict[tuple[str, int | None, bool], int], said: list[str]
) -> None:
    """The node's committed behaviour, what comes next, and what is no longer needed."""
    assert notes(committed, Counter(found)) == [f"committed: {committed}", *said]
