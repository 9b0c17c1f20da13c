"""Is it told that the worker is not connected to Temporal, and only once that has lasted?"""

import pytest

from worker.stand_in.connection import NOT_CONNECTED, Connection

Looks = list[tuple[bool, float]]
ROWS: dict[str, tuple[Looks, bool | None]] = {
    "a worker that has just begun cannot tell": ([(False, 0.5), (False, 4.5)], None),
    "it has never connected": ([(False, 0.5), (False, 5.0)], False),
    "it is connected": ([(False, 0.5), (True, 1.0)], True),
    "it begins anew": ([(True, 1.0), (False, 5.5)], True),
    "it has lost the connection": ([(True, 1.0), (False, 6.0)], False),
    "it is back": ([(True, 1.0), (False, 6.0), (True, 6.5)], True),
    "lost again, but not for long": ([(True, 1.0), (False, 6.0), (True, 6.5), (False, 7.0)], True),
}


@pytest.mark.parametrize(("looks", "available"), ROWS.values(), ids=ROWS)
def test_connection(looks: Looks, available: bool | None) -> None:
    """Judge one row."""
    connection = Connection(5.0)
    for is_hosted, now in looks:
        assert connection.look(now, is_hosted=is_hosted, is_replaying=False) is is_hosted
    engine = connection.engine("why", 2)
    assert (engine and (engine.away_since is None, engine.why, engine.pods_led)) == (
        None if available is None else (available, "why" if available else NOT_CONNECTED, 2)
    )


POLLING: dict[str, tuple[list[tuple[str, float]], float]] = {
    "since it has started": ([("", 0.5), ("hosted", 1.0), ("hosted", 9.0)], 1.0),
    "not while it replays what is open": ([("", 0.5), ("replaying", 1.0), ("replaying", 8.0), ("hosted", 8.5)], 8.0),
    "while it replays, what is due does not count yet": ([("replaying", 1.0), ("replaying", 8.0)], 8.0),
    "what is due counts without a worker": ([("hosted", 1.0), ("", 6.0)], 0.0),
    "anew after a loss": ([("hosted", 1.0), ("", 6.0), ("hosted", 7.0), ("hosted", 8.0)], 7.0),
}


@pytest.mark.parametrize(("looks", "since"), POLLING.values(), ids=POLLING)
def test_since_when_it_polls(looks: list[tuple[str, float]], since: float) -> None:
    """Judge one row."""
    connection = Connection(5.0)
    for does, now in looks:
        connection.look(now, is_hosted=does == "hosted", is_replaying=does == "replaying")
    assert connection.polls_since == since
