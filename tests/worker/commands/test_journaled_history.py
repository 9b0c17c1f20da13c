"""What does `tempolet history` tell while Temporal is away, from the node's own journal?"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.temporal import names
from proto.temporal.activities.requests import PodRuntime, RuntimeContainer
from proto.temporal.away import EntryKind, StoryEntry
from proto.temporal.pod import ContainerState, PodOutcome
from proto.temporal.signals import PodListed
from tests.worker.stand_in.journal.journals import AT, PLACE, SOON, start, workflow_id
from worker.commands.access.exits import CommandFailed
from worker.commands.access.journaled_pods import untold_of
from worker.commands.access.pod_selection import PodSelector
from worker.commands.access.temporal_access import NoAnswer
from worker.commands.show import history
from worker.daemon.config import NodeConfig
from worker.history.while_away import AWAY_STILL
from worker.stand_in.journal.journal import Journal
from worker.telemetry.workflow_engine import WorkflowEngine
from worker.temporal.keys import KeyFile, create_key_file

WEB = PodSelector("default", "web")
ENDED = RuntimeContainer(
    *("c", "id-0", "s-0", 0, ContainerState.EXITED),
    started_at=AT,
    finished_at=AT + timedelta(seconds=4),
    exit_code=1,
    reason="Error",
)
STORY = (
    StoryEntry(AT, EntryKind.COMPLETED, names.READ_POD_RUNTIME, "at once", PodRuntime(containers=(ENDED,))),
    StoryEntry(AT, EntryKind.WAITED, "CrashLoopBackOff: restart 1 of c", value=10),
)


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    """Configure a node without a worker."""
    return NodeConfig("n", root_dir=tmp_path)


@pytest.fixture
def journal(config: NodeConfig) -> Iterator[Journal]:
    """Open the node's journal, as its worker does."""
    create_key_file(config.payload_key_file)
    with Journal(config.state_dir, KeyFile(config.payload_key_file)) as journal:
        yield journal


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let Temporal be away; returns how often it was asked."""
    asked: list[str] = []

    async def client_of(_: NodeConfig) -> Any:
        asked.append("Temporal")
        raise NoAnswer("Temporal does not answer")

    monkeypatch.setattr(history, "client_of", client_of)
    return asked


def write(journal: Journal, uid: str, *story: StoryEntry) -> None:
    """Keep a pod, and append its story."""
    journal.keep(workflow_id(uid), start(uid), PLACE)
    for one in story:
        journal.append(workflow_id(uid), one)
    assert journal.flush(workflow_id(uid), SOON)


def shown(
    config: NodeConfig, capsys: pytest.CaptureFixture[str], selector: PodSelector = WEB, output: str = "table"
) -> str:
    """Run the command."""
    history.show(config, selector, output=output)
    return capsys.readouterr().out


def test_the_journal_s_part_is_told(config: NodeConfig, journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    """In the sentences of a history, and what waits."""
    write(journal, "u1", *STORY)
    lines = shown(config, capsys).splitlines()
    assert lines[0] == "default/web on n, UID u1"
    texts = [line[25:] for line in lines[2:-1]]
    assert texts == [
        AWAY_STILL,
        "  container c ended: exit 1 Error after 4.00 s",
        "  waits 10.0 s: CrashLoopBackOff: restart 1 of c",
    ]
    assert lines[-1] == history.REST_WAITS


def test_an_edit_is_told_if_the_pod_before_it_is_known(
    config: NodeConfig, journal: Journal, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal has the pod as it is now, so the first listing only says how it was then."""
    pod = start("u1").pod
    edited = pod | {"spec": {"containers": [pod["spec"]["containers"][0] | {"image": "busybox:2"}]}}
    listed = (PodListed("api", 0, one, in_place=True) for one in (pod, edited))
    write(journal, "u1", *(StoryEntry(AT, EntryKind.SIGNALLED, names.POD_LISTED, value=one) for one in listed))
    (edit,) = (line[25:] for line in shown(config, capsys).splitlines() if "changed" in line)
    assert edit.startswith("  pod changed: ")
    assert "busybox:2" in edit


def test_temporal_is_not_waited_for_if_the_worker_finds_it_away(
    config: NodeConfig,
    journal: Journal,
    asked: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for a pod that the journal does not have."""

    async def engine(*_: Any) -> WorkflowEngine:
        return WorkflowEngine(AT, "a timer is due", 1)

    monkeypatch.setattr(history, "workflow_engine", engine)
    write(journal, "u1", *STORY)
    assert "exit 1 Error" in shown(config, capsys)
    assert asked == []
    with pytest.raises(NoAnswer, match="This node's own journal has no pod default/db"):
        shown(config, capsys, PodSelector("default", "db"))
    assert asked == ["Temporal"]


def test_a_pod_that_is_gone(config: NodeConfig, journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tombstone says how it ended; a newer pod of the name is told by itself."""
    write(journal, "u1", *STORY)
    journal.forget(workflow_id("u1"), PodOutcome("Succeeded", "Completed", 2))
    assert journal.flush(workflow_id("u1"), SOON)
    lines = shown(config, capsys).splitlines()
    assert lines[0] == "default/web on n, UID u1, gone"
    assert lines[2].endswith("the pod is gone: Succeeded, restarts 2 (Completed)")
    assert lines[-1] == history.REST_WAITS
    write(journal, "u2", STORY[1])
    (uid,) = (one["uid"] for one in json.loads(shown(config, capsys, replace(WEB, uid="u2"), "json")))
    assert uid == "u2"
    every = json.loads(shown(config, capsys, replace(WEB, every=True), "json"))
    assert [(one["uid"], one["open"], one["restWaitsForTemporal"]) for one in every] == [
        ("u1", False, True),
        ("u2", True, True),
    ]


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(PodSelector("default", "db"), id="another-name"),
        pytest.param(replace(WEB, uid="u9"), id="another-uid"),
        pytest.param(replace(WEB, node="other"), id="another-node"),
    ],
)
def test_what_the_journal_does_not_have(config: NodeConfig, journal: Journal, selector: PodSelector) -> None:
    """Nobody knows while Temporal is away whether there was such a pod."""
    write(journal, "u1", *STORY)
    with pytest.raises(NoAnswer, match="Temporal does not answer"):
        history.show(config, selector, output="table")


def test_a_name_without_the_node_s(config: NodeConfig, journal: Journal) -> None:
    """The error has the pod's full name, as with Temporal."""
    journal.keep("pod/n/default/web-n/u1", start("u1"), PLACE)
    assert journal.flush("pod/n/default/web-n/u1", SOON)
    with pytest.raises(CommandFailed, match="the name of a static pod ends with its node's name: default/web-n"):
        history.show(config, WEB, output="table")


def test_without_keys_nothing_is_read(config: NodeConfig, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator's machine has no journal, and no key file either."""
    with pytest.raises(NoAnswer):
        history.show(config, WEB, output="table")
    assert untold_of(config, workflow_id("u1")) is None
    assert capsys.readouterr().out == ""


def test_gaps_are_told(config: NodeConfig, journal: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader knows that an entry is missing which was damaged."""
    write(journal, "u1", *STORY, *STORY[1:])
    story = config.state_dir / "away" / "u1" / "story"
    data = bytearray(story.read_bytes())
    data[len(data) // 2] ^= 1
    story.write_bytes(data)
    lines = shown(config, capsys).splitlines()
    assert [line[25:] for line in lines[4:6]] == [
        "  1 entries are missing here",
        "  waits 10.0 s: CrashLoopBackOff: restart 1 of c",
    ]
    assert lines[6:] == [history.REST_WAITS]
