"""Does today's workflow code still lead every recorded life the way it was led?"""

import json
from pathlib import Path

import pytest

from worker.commands.replay import read_history, replay
from workflows.decide.versions import BEHAVIOURS, NODE_BEHAVIOURS

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
NODE_HISTORIES = sorted((Path(__file__).parent / "node_histories").glob("*.json"))
OWED = {
    "plain",
    "three-init-containers",
    "failing-init",
    "crash-loop",
    "image-not-found",
    "deletion-during-start",
    "manifest-edit",
    "sandbox-killed",
    "worker-restarted",
    "continue-as-new",
}
OWED_OF_API = {"api-plain", "api-finished", "api-rejected", "api-forced", "api-deleted-during-pull", "api-history-lost"}
FIRST_OF_API = 2
"""The behaviour with which pods of an API server came."""


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_life_replays(path: Path) -> None:
    """Every command comes again, in its order."""
    verdict = await replay(path.stem, read_history(path))
    assert not verdict.failure


@pytest.mark.parametrize("path", NODE_HISTORIES, ids=lambda path: path.stem)
async def test_the_recorded_life_of_a_node_replays(path: Path) -> None:
    """So does the workflow about the node's images."""
    verdict = await replay(path.stem, read_history(path))
    assert not verdict.failure


def test_every_behaviour_of_the_nodes_workflow_has_its_life() -> None:
    """It counts on its own."""
    assert {int(path.stem[1:].partition("-")[0]) for path in NODE_HISTORIES} == set(NODE_BEHAVIOURS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_every_behaviour_has_its_lives(behaviour: int) -> None:
    """A version without histories would be a version nobody holds us to."""
    recorded = {path.stem.partition("-")[2] for path in HISTORIES if path.stem.startswith(f"v{behaviour}-")}
    owed = OWED | OWED_OF_API if behaviour >= FIRST_OF_API else OWED
    missing = {life for life in owed if not any(one == life or one.startswith(f"{life}-") for one in recorded)}
    assert not missing


async def test_a_life_that_was_led_otherwise_is_told(tmp_path: Path) -> None:
    """The check can fail: a history whose first activity has another name differs."""
    content = json.loads(next(path for path in HISTORIES if path.stem.endswith("-plain")).read_text())
    text = json.dumps(content).replace("RunPodSandbox", "WalkPodSandbox")
    changed = tmp_path / "changed.json"
    changed.write_text(text)
    assert (await replay("changed", read_history(changed))).failure
