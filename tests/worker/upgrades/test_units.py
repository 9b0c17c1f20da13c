"""Does an upgrade find the units of a node, lead their link to another release and back, and notice a program that keeps ending?

Under a real systemd, as `tests/worker/daemon/test_systemd.py`.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import CHECKOUT, UNITS, Machine, skip_unless_possible
from worker.telemetry.process_state import ProcessState
from worker.upgrades.services import CannotUpgrade
from worker.upgrades.units import Units, unit_of
from worker.upgrades.upgrade import Upgrade, WentBack

pytestmark = pytest.mark.systemd
PROGRAM = """#!/bin/sh
echo "$0 $1" >> {folder}/started
exec {python} -m tests.worker.daemon.systemd_stand_in {folder}
"""
BESIDE_TMP = "[Service]\nPrivateTmp=no\nProtectHome=no\nRestartSec=10ms\n"


class Node:
    """A node whose units are ours, word for word but for the place of the link."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine, self.folder, self.link = machine, folder, folder / "bin" / "tempolet"
        self.link.parent.mkdir()
        self.old, self.new = self.release("old"), self.release("new")
        self.link.symlink_to(self.old)

    def release(self, name: str, program: str = PROGRAM) -> Path:
        """Put a release's program in its place."""
        path = self.folder / name / "tempolet"
        path.parent.mkdir(exist_ok=True)
        path.write_text(program.format(folder=self.folder, python=sys.executable))
        path.chmod(0o755)
        return path

    def start(self, *roles: str) -> None:
        """Start the units of these processes."""
        for role in roles:
            text = (UNITS / unit_of(role)).read_text().replace("/usr/local/bin/tempolet", str(self.link))
            self.machine.write(unit_of(role), text)
            self.machine.write(f"{unit_of(role)}.d/test.conf", f"{BESIDE_TMP}Environment=PYTHONPATH={CHECKOUT}\n")
        self.machine.systemctl("daemon-reload")
        self.machine.systemctl("start", "--no-block", *map(unit_of, roles))
        for role in roles:
            wait_until(partial(self.runs, role), f"the {role} to run")

    def runs(self, role: str) -> bool:
        """Return whether a unit is ready."""
        return self.machine.show(unit_of(role))["SubState"] == "running"

    def stop(self) -> None:
        """Stop them, all in one transaction: a start of the node's unit wants the others."""
        units = [unit_of(role) for role in ("node", "poller", "worker")]
        self.machine.systemctl("stop", *units, check=False)
        for unit in units:
            (self.machine.units / unit).unlink(missing_ok=True)
        self.machine.systemctl("daemon-reload")

    def found(self) -> Units:
        """Find the node as an upgrade to the new release does."""
        return Units.found(self.new, run=self.machine.systemctl)

    def upgrade(self) -> list[str]:
        """Upgrade; each process tells that it works as soon as systemd says that it is ready."""
        units, told = self.found(), list[str]()

        def ask(role: str) -> ProcessState:
            return ProcessState(units.look(role).pid, ready=True, hosts=True, status="")

        Upgrade(units, ask, told.append, within=60).run()
        return told

    def started(self) -> list[str]:
        """Return which program was started as what, in order."""
        return [line.removeprefix(str(self.link.parent)) for line in (self.folder / "started").read_text().splitlines()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Run a systemd for this file."""
    skip_unless_possible()
    with Machine(tmp_path_factory.mktemp("systemd")) as started:
        yield started


@pytest.fixture
def node(machine: Machine, tmp_path: Path) -> Iterator[Node]:
    """Prepare a node that does not run yet."""
    made = Node(machine, tmp_path)
    yield made
    made.stop()


def test_the_link_leads_to_the_new_release_afterwards(node: Node) -> None:
    """Each unit that runs was restarted once, in order; one that does not run is left alone."""
    node.start("worker", "poller")
    before = [node.machine.show(unit_of(role))["MainPID"] for role in ("worker", "poller")]
    assert len(node.upgrade()) == 2
    assert node.link.readlink() == node.new
    after = [node.machine.show(unit_of(role)) for role in ("worker", "poller")]
    assert [one["SubState"] for one in after] == ["running", "running"]
    assert not set(before) & {one["MainPID"] for one in after}
    with pytest.raises(CannotUpgrade, match="leads to this release already"):
        node.found()
    assert Units.found(node.new, old=str(node.old), run=node.machine.systemctl).old == node.old


def test_a_program_that_keeps_ending_is_given_up(node: Node) -> None:
    """Long before the limit; the release before runs again, and the link leads to it."""
    node.start("worker", "poller", "node")
    node.release("new", "#!/bin/sh\nexit 3\n")
    with pytest.raises(WentBack, match=f"the worker has ended.*back on {node.old}"):
        node.upgrade()
    assert node.link.readlink() == node.old
    assert node.runs("worker")


@pytest.mark.parametrize(
    ("roles", "change", "words"),
    [
        pytest.param(("worker",), None, "tempolet-poller do not run", id="without-a-poller"),
        pytest.param(("worker", "poller"), "file", "no link", id="a-program-in-place-of-the-link"),
    ],
)
def test_what_cannot_be_switched_is_refused(node: Node, roles: tuple[str, ...], change: str | None, words: str) -> None:
    """Before anything is changed."""
    node.start(*roles)
    if change:
        node.link.unlink()
        node.link.write_bytes(node.old.read_bytes())
    with pytest.raises(CannotUpgrade, match=words):
        node.found()
