"""Are restarts by systemd counted from the upgrade on, whatever the process before has been through?"""

from pathlib import Path

import pytest

from worker.upgrades.units import Units


@pytest.mark.parametrize(
    ("before", "then", "ends"),
    [
        pytest.param(0, (0, 1, 3), (0, 1, 3), id="from-none"),
        pytest.param(5, (5, 0, 2), (0, 0, 2), id="a-start-by-hand-counts-anew"),
        pytest.param(5, (5, 6, 8), (0, 1, 3), id="a-systemd-that-counts-on"),
    ],
)
def test_only_ends_since_the_upgrade_count(before: int, then: tuple[int, ...], ends: tuple[int, ...]) -> None:
    """Else a worker that has crashed last month would fail every upgrade."""
    counts = iter((before, *then))

    def run(verb: str, *_words: str) -> str:
        return f"NRestarts={next(counts)}\nMainPID=7\n" if verb == "show" else ""

    units = Units(("worker",), Path("/link"), Path("/old"), Path("/new"), run)
    units.restart("worker")
    assert tuple(units.look("worker").ends for _ in then) == ends
