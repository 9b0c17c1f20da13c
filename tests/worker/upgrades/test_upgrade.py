"""Are the processes switched in order, and is the release before brought back whatever goes wrong, and wherever?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from worker.behaviours import commitment
from worker.behaviours.commitment import NEWEST, Behaviours, Commitment
from worker.telemetry.process_state import ProcessState
from worker.upgrades import upgrade
from worker.upgrades.health import Process
from worker.upgrades.services import ORDER
from worker.upgrades.upgrade import Upgrade, WentBack, interrupted, under_way


@dataclass
class Played:
    """Processes of two releases; a process is its pid."""

    roles: tuple[str, ...] = ORDER
    before: str = "/opt/tempolet-1"
    release: str = "before"
    runs: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ORDER, "before"))
    pids: dict[str, int] = field(default_factory=lambda: {role: number for number, role in enumerate(ORDER, start=1)})
    done: list[str] = field(default_factory=list)
    broken: dict[str, Callable[["Played"], Process]] = field(default_factory=dict)
    """How a new process of a role looks instead of working."""
    last_pid: int = 10

    def use_new(self) -> None:
        """Choose the new one."""
        self.release = "new"

    def use_before(self) -> None:
        """Choose the one before."""
        self.release = "before"

    def restart(self, role: str) -> None:
        """Start another process at once."""
        self.last_pid += 1
        self.pids[role], self.runs[role] = self.last_pid, self.release
        self.done.append(f"{self.release} {role}")

    def look(self, role: str) -> Process:
        """Tell of a process."""
        if self.runs[role] == "new" and role in self.broken:
            return self.broken[role](self)
        return Process(self.pids[role], is_active=True)

    def ask(self, role: str) -> ProcessState | None:
        """Answer as a new process; the release before tells nothing."""
        if self.runs[role] == "before":
            return None
        return ProcessState(self.pids[role], ready=True, hosts=role == "worker", status="")

    def run(self) -> list[str]:
        """Upgrade; returns what was told."""
        told: list[str] = []
        Upgrade(self, self.ask, told.append, within=0.5).run()
        return told


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often."""
    monkeypatch.setattr(upgrade, "BETWEEN_LOOKS", 0.001)


def test_each_process_is_restarted_in_order() -> None:
    """Once the one before works."""
    played = Played()
    told = played.run()
    assert played.done == ["new worker", "new poller", "new node"]
    assert [line.split()[3] for line in told] == list(ORDER)


def ended(_played: Played) -> Process:
    """A process that has ended."""
    return Process(is_over=True, words="no module named x")


def waits(played: Played) -> Process:
    """A process that never becomes ready."""
    return Process(played.last_pid, words="waiting for Godot")


@pytest.mark.parametrize("role", ORDER)
@pytest.mark.parametrize(("how", "words"), [(ended, "no module named x"), (waits, "waiting for Godot")])
def test_the_release_before_is_brought_back(role: str, how: Callable[[Played], Process], words: str) -> None:
    """What was touched, and nothing else, in the same order."""
    played = Played(broken={role: how})
    with pytest.raises(WentBack, match=f"the {role} .*{words}.*back on /opt/tempolet-1"):
        played.run()
    touched = ORDER[: ORDER.index(role) + 1]
    assert played.done == [*(f"new {one}" for one in touched), *(f"before {one}" for one in touched)]
    assert set(played.runs.values()) == {"before"}


def test_a_process_that_ends_after_it_was_ready_counts() -> None:
    """The worker has gone while the others were started."""
    played = Played()
    looks = iter(range(1, 100))

    def gone_later(played: Played) -> Process:
        return (
            Process(played.pids["worker"], is_active=True) if next(looks) < 2 else Process(is_over=True, words="killed")
        )

    played.broken["worker"] = gone_later
    with pytest.raises(WentBack, match="ended after it was ready: killed"):
        played.run()
    assert set(played.runs.values()) == {"before"}


def test_an_operator_who_interrupts_gets_the_release_before() -> None:
    """And the interruption itself."""

    def interrupts(played: Played) -> Process:
        played.broken.clear()
        raise KeyboardInterrupt

    played = Played(broken={"poller": interrupts})
    with pytest.raises(KeyboardInterrupt):
        played.run()
    assert set(played.runs.values()) == {"before"}


def test_a_release_before_that_does_not_work_either_is_told() -> None:
    """With both reasons."""
    played = Played(broken={"worker": ended})
    played.use_before = lambda: None  # type: ignore[method-assign]  # as if it had gone
    with pytest.raises(
        WentBack, match="no module named x; and the release before, /opt/tempolet-1, does not work again"
    ):
        played.run()


def test_a_new_worker_commits_nothing_while_the_upgrade_may_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with commit: AtStart; an upgrade that was interrupted long ago counts no more, and its release is known."""
    file, older = tmp_path / commitment.FILE, Behaviours(NEWEST.pods - 1, NEWEST.node - 1)
    file.write_text(f'{{"pods": {older.pods}, "node": {older.node}}}')
    assert interrupted(tmp_path) == ""
    with under_way(tmp_path, "/opt/tempolet-1"):
        assert Commitment(tmp_path).settle(at_start=True) == older
        assert interrupted(tmp_path) == "/opt/tempolet-1"
    assert interrupted(tmp_path) == ""
    (tmp_path / commitment.UPGRADE).write_text("[")
    assert interrupted(tmp_path) == ""
    monkeypatch.setattr(commitment, "HELD_FOR", 0.0)
    assert Commitment(tmp_path).settle(at_start=True) == NEWEST
