"""Are services started, stopped, enabled and asked for what they are, also those that are missing?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from activities.clients.systemd.bus import Sockets, SystemdRefused
from activities.clients.systemd.services import SystemdServices, object_path
from activities.clients.systemd.units import SystemdUnits
from tests.activities.clients.systemd.fake_systemd import FakeSystemd, answer, refusal

UNIT = "tempolet-up-worker.service"


@pytest.fixture(params=["bus", "private"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeSystemd]:
    """Return a systemd behind a bus, and one on its own socket."""
    with FakeSystemd(tmp_path / request.param).listening() as found:
        yield found


@pytest.fixture
def services(systemd: FakeSystemd, tmp_path: Path) -> SystemdServices:
    """Return the client of one."""
    assert systemd.path.exists()
    return SystemdServices(SystemdUnits(Sockets(tmp_path / "bus", tmp_path / "private"), 20))


@pytest.mark.parametrize(
    ("act", "call"),
    [
        pytest.param(lambda one: one.start(UNIT), ("StartUnit", (UNIT, "replace")), id="start"),
        pytest.param(
            lambda one: one.start(UNIT, alone=True), ("StartUnit", (UNIT, "ignore-dependencies")), id="start-alone"
        ),
        pytest.param(lambda one: one.enable(UNIT), ("EnableUnitFiles", ([UNIT], False, True)), id="enable"),
        pytest.param(lambda one: one.disable(UNIT), ("DisableUnitFiles", ([UNIT], False)), id="disable"),
        pytest.param(lambda one: one.reload(), ("Reload", ()), id="reload"),
        pytest.param(lambda one: one.forget(UNIT), ("ResetFailedUnit", (UNIT,)), id="forget"),
    ],
)
def test_a_call(
    systemd: FakeSystemd, services: SystemdServices, act: Callable[[SystemdServices], None], call: tuple[str, object]
) -> None:
    """With its arguments, for good and not until the next boot."""
    act(services)
    assert systemd.calls == [call]


def test_a_stop_is_awaited(systemd: FakeSystemd, services: SystemdServices) -> None:
    """And a missing unit is stopped already."""
    systemd.units.add(UNIT)
    services.stop(UNIT)
    assert not systemd.units
    services.stop(UNIT)
    assert [name for name, _ in systemd.calls] == ["StopUnit", "StopUnit"]


@pytest.mark.parametrize(
    ("ask", "value", "expected"),
    [
        pytest.param(lambda one: one.main_pid(UNIT), ("u", 77), 77, id="a-process"),
        pytest.param(lambda one: one.main_pid(UNIT), ("u", 0), 0, id="none"),
        pytest.param(lambda one: one.state(UNIT), ("s", "activating"), "activating", id="state"),
        pytest.param(lambda one: one.substate(UNIT), ("s", "auto-restart"), "auto-restart", id="substate"),
        pytest.param(lambda one: one.result(UNIT), ("s", "timeout"), "timeout", id="result"),
    ],
)
def test_a_property(
    systemd: FakeSystemd,
    services: SystemdServices,
    ask: Callable[[SystemdServices], object],
    value: tuple[str, object],
    expected: object,
) -> None:
    """As systemd has it."""
    systemd.answers["Get"] = lambda _, call: [answer(call, "v", (value,))]
    assert ask(services) == expected


def test_a_refusal_is_raised(systemd: FakeSystemd, services: SystemdServices) -> None:
    """With systemd's words."""
    systemd.answers["StartUnit"] = lambda _, call: [refusal(call, "NoSuchUnit", "Unit x not found.")]
    with pytest.raises(SystemdRefused, match="Unit x not found"):
        services.start(UNIT)


@pytest.mark.parametrize(
    ("unit", "label"),
    [
        pytest.param("a.service", "a_2eservice", id="a-dot"),
        pytest.param("tempolet-up-run-a\\x2db.target", "tempolet_2dup_2drun_2da_5cx2db_2etarget", id="an-escape"),
        pytest.param("1.slice", "_31_2eslice", id="a-first-digit"),
    ],
)
def test_the_object_of_a_unit(unit: str, label: str) -> None:
    """As sd_bus_path_encode(3) has it."""
    assert object_path(unit) == f"/org/freedesktop/systemd1/unit/{label}"
