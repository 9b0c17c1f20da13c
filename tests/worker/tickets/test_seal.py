"""Does a sealed ticket open for its activity alone, and is whatever else somebody sends refused?"""

from pathlib import Path
from typing import Final

import pytest
from temporalio.api.common.v1 import Payload

from proto.temporal.ticket import Ticket
from worker.temporal.keys import KeyFile, KeyMissing, add_key
from worker.tickets.seal import KEY_ID, SEALED, TicketSeal, TicketUnreadable

TICKET: Final = Ticket("a" * 16, 7)
WORKFLOW, ACTIVITY = "pod/n/default/web/u1", "container/web"


@pytest.fixture
def seal(key_file: Path) -> TicketSeal:
    """Return the seal of a node."""
    return TicketSeal(KeyFile(key_file), "tempolet")


def test_it_opens_for_its_activity(seal: TicketSeal, key_file: Path) -> None:
    """Also in another process, and each time it is sealed otherwise."""
    sealed = seal.sealed(TICKET, WORKFLOW, ACTIVITY)
    assert TicketSeal(KeyFile(key_file), "tempolet").opened(sealed, WORKFLOW, ACTIVITY) == TICKET
    assert sealed != seal.sealed(TICKET, WORKFLOW, ACTIVITY)
    assert TICKET.incarnation.encode() not in sealed.data


@pytest.mark.parametrize(
    ("namespace", "workflow_id", "activity_id"),
    [
        pytest.param("another", WORKFLOW, ACTIVITY, id="another-namespace"),
        pytest.param("tempolet", "pod/n/default/web/u2", ACTIVITY, id="another-workflow"),
        pytest.param("tempolet", WORKFLOW, "sandbox", id="another-activity"),
        pytest.param("tempolet", f"{WORKFLOW}\0container", "web", id="another-split-of-both"),
    ],
)
def test_it_opens_nowhere_else(
    seal: TicketSeal, key_file: Path, namespace: str, workflow_id: str, activity_id: str
) -> None:
    """Each of the three is bound."""
    sealed = seal.sealed(TICKET, WORKFLOW, ACTIVITY)
    with pytest.raises(TicketUnreadable):
        TicketSeal(KeyFile(key_file), namespace).opened(sealed, workflow_id, activity_id)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(Payload(), id="empty"),
        pytest.param(Payload(metadata={"encoding": b"json/plain"}, data=b'{"incarnation":"a"}'), id="plain"),
        pytest.param(Payload(metadata={"encoding": SEALED}, data=b"x" * 60), id="no-key"),
        pytest.param(Payload(metadata={"encoding": SEALED, KEY_ID: b"\xff"}, data=b"x" * 60), id="an-odd-key"),
        pytest.param(Payload(metadata={"encoding": SEALED, KEY_ID: b"00000000"}, data=b"x" * 60), id="unknown-key"),
        pytest.param(Payload(metadata={"encoding": SEALED, KEY_ID: b"k"}, data=b"x" * 2_000_000), id="2-megabytes"),
    ],
)
def test_what_this_node_has_not_sealed(seal: TicketSeal, header: Payload) -> None:
    """It is unreadable, whatever it is."""
    with pytest.raises(TicketUnreadable):
        seal.opened(header, WORKFLOW, ACTIVITY)


@pytest.mark.parametrize("length", [0, 5, 12, 20, 45])
def test_what_was_altered_or_cut(seal: TicketSeal, length: int) -> None:
    """It is unreadable, too."""
    sealed = seal.sealed(TICKET, WORKFLOW, ACTIVITY)
    altered = sealed.data[:length] + bytes([sealed.data[length] ^ 1]) + sealed.data[length + 1 :]
    for data in (sealed.data[:length], altered):
        with pytest.raises(TicketUnreadable):
            seal.opened(Payload(metadata=sealed.metadata, data=data), WORKFLOW, ACTIVITY)


def test_keys_rotate(seal: TicketSeal, key_file: Path) -> None:
    """What a newer key has sealed opens in a process that read the file before; a missing secret is no refusal."""
    add_key(key_file)
    newer = TicketSeal(KeyFile(key_file), "tempolet").sealed(TICKET, WORKFLOW, ACTIVITY)
    assert seal.opened(newer, WORKFLOW, ACTIVITY) == TICKET
    lines = key_file.read_text().splitlines(keepends=True)
    key_file.write_text(lines[0])
    with pytest.raises(KeyMissing):
        TicketSeal(KeyFile(key_file), "tempolet").opened(newer, WORKFLOW, ACTIVITY)
