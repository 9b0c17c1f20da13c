"""Does today's workflow code replay every recorded life?"""

import json
from pathlib import Path

import pytest

from proto.kubernetes.resources import qos
from proto.kubernetes.resources.qos import QosClass
from tests.workflows.strict_sandbox import strict_sandbox
from worker.commands.replay import read_history
from worker.host.replays.replaying import replay
from workflows.decide.versions import BEHAVIOURS, CURRENT, CURRENT_NODE, NODE_BEHAVIOURS

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
LOOKED_AT = ("api-claims", "api-deleted-during-pull", "both-hooks", "continue-as-new-1", "resize", "restart-all")
"""Lives that together have most of what a pod's workflow does; one of them in the sandbox takes as long as four without."""
FIRST_OF_API = 2
"""The behaviour that introduced pods of an API server."""
FIRST_RAISED = 3
"""The first behaviour that older runs could be raised to."""


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_life_replays(path: Path) -> None:
    """The commands are the same, in the same order."""
    verdict = await replay(path.stem, read_history(path))
    assert not verdict.failure


@pytest.mark.parametrize("path", NODE_HISTORIES, ids=lambda path: path.stem)
async def test_the_recorded_life_of_a_node_replays(path: Path) -> None:
    """So does the workflow that collects the node's images."""
    verdict = await replay(path.stem, read_history(path))
    assert not verdict.failure


@pytest.mark.parametrize(
    "path",
    [
        *(HISTORIES[0].with_name(f"v{CURRENT}-{name}.json") for name in LOOKED_AT),
        NODE_HISTORIES[0].with_name(f"v{CURRENT_NODE}-hardware.json"),
    ],
    ids=lambda path: path.stem,
)
async def test_a_recorded_life_replays_with_the_sandbox_looking(path: Path) -> None:
    """It finds no clock, no random number, no file and no module of the operating system."""
    verdict = await replay(path.stem, read_history(path), runner=strict_sandbox())
    assert not verdict.failure


async def test_the_sandbox_finds_a_file_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the check can fail."""
    (tmp_path / "class").write_text(QosClass.BURSTABLE)

    def read_class(_: object) -> QosClass:
        with open(tmp_path / "class") as file:  # noqa: PTH123 - Path's is not the built-in one, which the sandbox replaces
            return QosClass(file.read())

    monkeypatch.setattr(qos, "qos_class", read_class)
    path = HISTORIES[0].with_name(f"v{CURRENT}-plain.json")
    assert not (await replay(path.stem, read_history(path))).failure
    assert (
        "RestrictedWorkflowAccessError"
        in (await replay(path.stem, read_history(path), runner=strict_sandbox())).failure
    )


def test_every_behaviour_of_the_nodes_workflow_has_its_life() -> None:
    """It has numbers of its own."""
    assert {int(path.stem[1:].partition("-")[0]) for path in NODE_HISTORIES} == set(NODE_BEHAVIOURS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_every_behaviour_has_its_lives(behaviour: int) -> None:
    """A behaviour without histories would not be tested."""
    recorded = {path.stem.partition("-")[2] for path in HISTORIES if path.stem.startswith(f"v{behaviour}-")}
    owed = OWED | OWED_OF_API if behaviour >= FIRST_OF_API else OWED
    owed = owed | {"behaviour-raised"} if behaviour >= FIRST_RAISED else owed
    missing = {life for life in owed if not any(one == life or one.startswith(f"{life}-") for one in recorded)}
    assert not missing


def behaviours(path: Path) -> list[int]:
    """Return the behaviours that a recorded life followed, run by run."""
    runs = sorted(path.parent.glob(f"{path.stem}-*.json"))
    starts = [read_history(one).events[0].workflow_execution_started_event_attributes.input for one in runs]
    return [json.loads(one.payloads[0].data)["behaviour"] for one in starts]


@pytest.mark.parametrize(
    ("lives", "numbers"),
    [
        pytest.param(HISTORIES[0].with_name("v3-behaviour-raised"), [2, 3], id="of-a-pod"),
        pytest.param(NODE_HISTORIES[0].with_name("v2-behaviour-raised"), [1, 2], id="of-a-node"),
    ],
)
def test_one_recorded_life_changes_its_number(lives: Path, numbers: list[int]) -> None:
    """The number changes between two runs, never within one; each run replays by the number in its input."""
    assert behaviours(lives) == numbers


async def test_a_life_that_was_led_otherwise_is_told(tmp_path: Path) -> None:
    """Proves that the check can fail: a history whose first activity was renamed does not replay."""
    content = json.loads(next(path for path in HISTORIES if path.stem.endswith("-plain")).read_text())
    text = json.dumps(content).replace("RunPodSandbox", "WalkPodSandbox")
    changed = tmp_path / "changed.json"
    changed.write_text(text)
    assert (await replay("changed", read_history(changed))).failure
