"""Does an upgrade tell a container that it has stopped from one that ended by itself?"""

import pytest

from worker.upgrades.containers import Compared, Container, compare

WEB = Container("default/web main", 100)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        pytest.param({"c": (100, None)}, Compared(1), id="it-runs-on"),
        pytest.param({"c": (0, 1)}, Compared(0, ended=("default/web main (exit 1)",)), id="it-crashed"),
        pytest.param({"c": (0, 0)}, Compared(0, ended=("default/web main (exit 0)",)), id="it-was-done"),
        pytest.param({}, Compared(0, ended=("default/web main (removed)",)), id="it-is-gone"),
        pytest.param({"c": (0, 137)}, Compared(0, stopped=("default/web main (exit 137)",)), id="it-was-killed"),
        pytest.param({"c": (0, 143)}, Compared(0, stopped=("default/web main (exit 143)",)), id="it-was-stopped"),
        pytest.param({"c": (101, None)}, Compared(0, stopped=("default/web main (another process)",)), id="other-pid"),
        pytest.param({"c": (100, None), "new": (7, None)}, Compared(1), id="a-new-one-does-not-count"),
    ],
)
def test_a_container_before_and_after(after: dict[str, tuple[int, int | None]], found: Compared) -> None:
    """By its id."""
    assert compare({"c": WEB}, after) == found


def test_a_runtime_that_tells_no_pids() -> None:
    """Then the id alone is compared."""
    assert compare({"c": Container("x", 0)}, {"c": (0, None)}) == Compared(1)
