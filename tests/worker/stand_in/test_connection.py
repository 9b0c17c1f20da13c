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
        assert connection.look(is_hosted, now) is is_hosted
    engine = connection.engine("why", 2)
    assert (engine and (engine.away_since is None, engine.why, engine.pods_led)) == (
        None if available is None else (available, "why" if available else NOT_CONNECTED, 2)
    )
