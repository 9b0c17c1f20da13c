"""Does systemd do what join and leave ask it for, and are its answers understood? Under a real one, as `tests/worker/daemon/test_systemd.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import Machine, skip_unless_possible
from worker.joining.refusal import JoinRefused
from worker.joining.systemd import Systemd

pytestmark = pytest.mark.systemd
UNIT: Final = (
    "[Unit]\nStartLimitIntervalSec=0\nDefaultDependencies=no\n[Service]\n{}\n[Install]\nWantedBy=multi-user.target\n"
)
NEVER_READY: Final = "Type=notify\nTimeoutStartSec=infinity\nTimeoutStopSec=1\nExecStart=/bin/sleep 1000"
ENDS: Final = "Restart=always\nRestartSec=20ms\nExecStart=/bin/false"
NAME: Final = "tempolet-joining-test.service"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a machine whose /etc/systemd/system is its units' folder, for `enable` writes there."""
    skip_unless_possible()
    with Machine(tmp_path) as made:
        made.inside("mount", "--bind", str(made.units), "/etc/systemd/system")
        yield made


@pytest.fixture
def systemd(machine: Machine, tmp_path: Path) -> Systemd:
    """Return what join uses, for this machine."""
    program = tmp_path / "systemctl"
    program.write_text(
        f"#!/bin/sh\nSYSTEMD_UNIT_PATH={machine.units} "
        f'exec nsenter --target {machine._first} --mount --pid --cgroup systemctl "$@"\n'
    )
    program.chmod(0o755)
    return Systemd(str(program))


def test_enabling_waits_for_no_service_and_disabling_ends_it(machine: Machine, systemd: Systemd) -> None:
    """A node that waits for its certificate is `activating` without a time limit."""
    assert systemd.unit(NAME).loaded == "not-found"
    machine.write(NAME, UNIT.format(NEVER_READY))
    systemd.reload()
    unit = systemd.unit(NAME)
    assert (unit.loaded, unit.runs, unit.enabled, unit.id) == ("loaded", False, "disabled", NAME)
    systemd.enable([NAME])
    wait_until(lambda: systemd.unit(NAME).runs, "it starts")
    unit = systemd.unit(NAME)
    assert (unit.active, unit.keeps_ending) == ("activating", False)
    wanted = machine.units / "multi-user.target.wants" / NAME
    assert wanted.is_symlink()  # this machine finds units elsewhere than in /etc, so it does not call that enabled
    systemd.restart([NAME])
    systemd.disable(NAME)
    unit = systemd.unit(NAME)
    assert (unit.runs, unit.enabled) == (False, "disabled")
    assert not wanted.is_symlink()


def test_a_service_that_keeps_ending_is_noticed(machine: Machine, systemd: Systemd) -> None:
    """With systemd's word for why."""
    machine.write(NAME, UNIT.format(ENDS))
    systemd.reload()
    systemd.enable([NAME])
    wait_until(lambda: systemd.unit(NAME).keeps_ending, "it has ended often")
    systemd.disable(NAME)


def test_an_alias_is_told_by_the_units_own_name(machine: Machine, systemd: Systemd) -> None:
    """`ln -s … kubelet.service` makes no kubelet of our worker."""
    machine.write(NAME, UNIT.format(NEVER_READY))
    (machine.units / "kubelet.service").symlink_to(machine.units / NAME)
    systemd.reload()
    assert systemd.unit("kubelet.service").id == NAME


def test_what_systemd_refuses_is_told(systemd: Systemd) -> None:
    """In its words."""
    with pytest.raises(JoinRefused, match=r"none\.service"):
        systemd.enable(["none.service"])
