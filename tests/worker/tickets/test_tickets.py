"""Are tickets kept on the disk as they were drawn, by two processes at once, and is a damaged one none?"""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from proto.temporal.ticket import UNTICKETED, Ticket
from worker.tickets.held import Held, Verdict
from worker.tickets.tickets import FOLDER, Tickets

POD: Final = "pod/node-1/default/web/u1"
ENDLESS: Final = (
    b'{"workflow_id": "pod/node-1/default/web/u1", "ticket": {"incarnation": "x", "epoch": Infinity}, "earlier": null}'
)


@pytest.fixture
def tickets(tmp_path: Path) -> Tickets:
    """Return the tickets of a new node."""
    return Tickets(tmp_path)


def only_file(state_dir: Path) -> Path:
    """Return the one file of a ticket."""
    (file,) = (state_dir / FOLDER).iterdir()
    return file


def test_a_ticket_is_drawn_once(tickets: Tickets, tmp_path: Path) -> None:
    """The same one is given until the pod's life is over; another process finds it."""
    drawn = tickets.draw(POD)
    assert drawn == tickets.draw(POD) == tickets.of(POD) == Tickets(tmp_path).draw(POD)
    assert drawn != Tickets(tmp_path).draw("pod/node-1/default/web/u2")


def test_nothing_is_held_before_and_afterwards(tickets: Tickets) -> None:
    """A workflow that nobody has started has no ticket; what is forgotten is drawn anew."""
    assert tickets.of(POD) is None
    assert tickets.judge(POD, UNTICKETED, "r") is Verdict.REFUSED
    first = tickets.draw(POD)
    tickets.forget(POD)
    tickets.forget(POD)
    assert tickets.judge(POD, first, "r") is Verdict.REFUSED
    assert tickets.draw(POD) != first


def test_only_root_reads_and_writes_them(tickets: Tickets, tmp_path: Path) -> None:
    """Whoever could write them would decide what runs."""
    tickets.draw(POD)
    tickets.raise_epoch(POD)
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == 0o600


def test_what_one_process_writes_the_other_sees(tickets: Tickets, tmp_path: Path) -> None:
    """What was read before is not taken for the present state."""
    other = Tickets(tmp_path)
    first = tickets.draw(POD)
    assert other.judge(POD, first, "r") is Verdict.PASSES
    tickets.raise_epoch(POD)
    assert other.judge(POD, first, "r") is Verdict.PARKED
    tickets.forget(POD)
    assert other.judge(POD, first, "r") is Verdict.REFUSED


def test_a_life_ends_with_its_completion(tickets: Tickets) -> None:
    """The old ticket is refused from then on; the next start has another, which ends the old one also for its own run."""
    first = tickets.draw(POD)
    tickets.complete(POD, first, "run-1")
    assert tickets.of(POD) is None
    assert tickets.judge(POD, first, "run-2") is Verdict.REFUSED
    assert tickets.judge(POD, first, "run-1") is Verdict.PASSES
    second = tickets.draw(POD)
    assert second != first
    assert tickets.judge(POD, second, "run-3") is Verdict.PASSES
    assert tickets.judge(POD, first, "run-1") is Verdict.REFUSED


def test_the_epoch_rises(tickets: Tickets, tmp_path: Path) -> None:
    """Each time by one, and on the disk."""
    first = tickets.draw(POD)
    assert tickets.raise_epoch(POD) == Ticket(first.incarnation, 1)
    assert Tickets(tmp_path).raise_epoch(POD) == tickets.draw(POD) == Ticket(first.incarnation, 2)


def test_a_run_of_the_release_before_is_known_by_its_snapshot(tickets: Tickets) -> None:
    """It may act until its next run does."""
    tickets.know(POD, UNTICKETED)
    assert tickets.judge(POD, UNTICKETED, "r") is Verdict.PASSES
    drawn = tickets.draw(POD)
    assert tickets.judge(POD, UNTICKETED, "r") is Verdict.PASSES
    assert tickets.judge(POD, drawn, "r2") is Verdict.PASSES
    assert tickets.judge(POD, UNTICKETED, "r") is Verdict.REFUSED


def test_lost_tickets_are_found_in_snapshots(tickets: Tickets) -> None:
    """The pods of a node that has lost the folder go on."""
    tickets.know(POD, Ticket("a" * 16, 3))
    assert tickets.draw(POD) == Ticket("a" * 16, 3)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"ticket": 1}', b"[" * 60_000, b"\xff" * 100, b" " * 10_000_000, ENDLESS],
    ids=["empty", "cut", "a-list", "null", "another-form", "deep", "no-text", "10-megabytes", "an-endless-epoch"],
)
def test_a_damaged_file_counts_as_absent(tickets: Tickets, tmp_path: Path, content: bytes) -> None:
    """Nothing passes by it, and the next draw replaces it."""
    first = tickets.draw(POD)
    only_file(tmp_path).write_bytes(content)
    assert tickets.judge(POD, first, "r") is Verdict.REFUSED
    assert list(tickets.all()) == []
    second = tickets.draw(POD)
    assert second != first
    assert Tickets(tmp_path).judge(POD, second, "r") is Verdict.PASSES


def test_a_ticket_of_another_workflow_is_none(tickets: Tickets, tmp_path: Path) -> None:
    """A file that was copied to another name opens nothing."""
    drawn = tickets.draw(POD)
    content = only_file(tmp_path).read_bytes()
    tickets.forget(POD)
    tickets.draw("pod/other")
    only_file(tmp_path).write_bytes(content)
    assert tickets.judge("pod/other", drawn, "r") is Verdict.REFUSED


def test_many_draw_at_once(tickets: Tickets, tmp_path: Path) -> None:
    """Each workflow gets one ticket, whoever draws first."""
    stores = [tickets, Tickets(tmp_path)]
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda number: stores[number % 2].draw(f"pod/{number // 4}"), range(40)))
    assert [len(set(drawn[at : at + 4])) for at in range(0, 40, 4)] == [1] * 10
    assert len({one for one, _, _ in tickets.all()}) == 10


def test_changes_at_once_lose_nothing(tickets: Tickets, tmp_path: Path) -> None:
    """Each of them counts."""
    tickets.draw(POD)
    stores = [tickets, Tickets(tmp_path)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: stores[number % 2].raise_epoch(POD), range(20)))
    assert tickets.draw(POD).epoch == 20


def test_all_of_them(tickets: Tickets) -> None:
    """Also those whose life is over."""
    first = tickets.draw(POD)
    tickets.complete(POD, first, "r")
    tickets.draw("node/node-1")
    assert {name: held.is_over for name, held, _ in tickets.all()} == {POD: True, "node/node-1": False}
    assert isinstance(tickets.held(POD), Held)
