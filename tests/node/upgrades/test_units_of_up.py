"""Under a real systemd: does `tempolet upgrade` switch the units of a node of `tempolet up`, and does a boot start the new release?

The release before is this folder, the others are copies of it. A boot is played, as in `tests/node/standalone/test_under_systemd.py`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from proto.pod_snapshot import read_snapshots
from tests.node.standalone.standalone_node import manifest
from tests.node.standalone.test_under_systemd import BOOTED, CHECKOUT, Booted, node_of_units, up
from tests.node.upgrades.releases import PATIENT, release, release_of
from tests.node.upgrades.test_upgrade_command import DIES
from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import NoProcess
from worker.standalone.machine.units import NodeUnits
from worker.standalone.settings import Settings

pytestmark = [pytest.mark.node, pytest.mark.systemd]

SWITCHED: Final = ("worker", "poller")
RUN_ON: Final = ("containerd", "temporal")
OF_A_RELEASE: Final = ("worker", "poller", "temporal", "boot")
"""The units whose programs are a release's; containerd's is not."""
OTHER_LIMIT: Final = "[Service]\nTasksMax=4321\n"
BOOT_WITHIN: Final = 240.0


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node."""
    with node_of_units(slot, node_dir, "su") as settings:
        yield settings


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Make a release whose worker dies, with another text of its unit."""
    folder = release(tmp_path / "broken", "worker/processes/worker.py", DIES)
    unit = folder / "worker" / "joining" / "units" / "tempolet-worker.service"
    text = unit.read_text()
    unit.unlink()  # a link to this folder's
    unit.write_text(f"{text}\n{OTHER_LIMIT}")
    return folder


def test_units_name_the_release_that_works(node: Settings, broken: Path, tmp_path: Path) -> None:
    """A release that does not work leaves no trace in the units; after one that does, a crash of Temporal and a boot start it."""
    machine, units = Booted(tmp_path), node.units
    assert units is not None
    new = release(tmp_path / "new")
    with machine:
        machine.tempolet(node, *up(node, manifest(tmp_path, "web")))
        container, before = _container(machine, node), _pids(machine, units)
        text = _text(machine, units)
        said = machine.tempolet(node, "upgrade", "--within", str(PATIENT), release=broken, check=False)
        said = " ".join(said.split())
        assert f"the node is back on {CHECKOUT}" in said, said
        told = said.partition(f"{units.log('worker').where} ends: ")[2]
        assert "this release is broken" in told, said
        assert _text(machine, units) == text
        back = _pids(machine, units)
        assert {role for role in back if back[role] != before[role]} == {"worker"}
        assert _releases(machine, units, SWITCHED) == {CHECKOUT}
        assert machine.show(units.name("worker"))["NeedDaemonReload"] == "no"

        said = machine.tempolet(node, "upgrade", "--within", str(PATIENT), release=new)
        assert "1 containers run on with the same pids" in said
        after = _pids(machine, units)
        assert {role for role in after if after[role] == back[role]} == set(RUN_ON)
        assert _releases(machine, units, SWITCHED) == {new}
        assert _written(units) == {new}
        assert (machine.units / "multi-user.target.wants" / units.target).is_symlink()
        machine.kill(units.name("temporal"))
        wait_until(lambda: _has_release(machine, units, "temporal", new), "Temporal by the new release")
        assert _container(machine, node) == container
        wait_until(lambda: _restarts(node) == [0], "the pod to be ready")
    machine.write("default.target", BOOTED)
    with machine:
        wait_until(lambda: _restarts(node) == [1], "the pod to be back", BOOT_WITHIN)
        assert machine.show(units.name("boot"))["Result"] == "success"
        assert _releases(machine, units, (*SWITCHED, "temporal")) == {new}
        machine.tempolet(node, "down", "--purge", release=new)
        assert [one.name for one in machine.units.rglob("tempolet-up*")] == []


def _container(machine: Booted, node: Settings) -> tuple[str, str]:
    """Return id and pid of the pod's container."""
    (pod,) = read_snapshots(node.root_dir)
    found = pod.containers["main"].container_id
    task = node.containerd.places.state / "io.containerd.runtime.v2.task" / "k8s.io" / found / "init.pid"
    return found, machine.inside("cat", str(task))


def _restarts(node: Settings) -> list[int]:
    return [pod.restarts for pod in read_snapshots(node.root_dir) if pod.ready]


def _pids(machine: Booted, units: NodeUnits) -> dict[str, int]:
    return {role: machine.pid(units.name(role)) for role in (*SWITCHED, *RUN_ON)}


def _releases(machine: Booted, units: NodeUnits, roles: tuple[str, ...]) -> set[Path]:
    """Return the folders of the releases that processes are of."""
    return {Path(release_of(machine.pid(units.name(role)))) for role in roles}


def _has_release(machine: Booted, units: NodeUnits, role: str, expected: Path) -> bool:
    """Report whether a role runs, and as this release; while it starts again it has no process."""
    try:
        return _releases(machine, units, (role,)) == {expected}
    except NoProcess:
        return False


def _text(machine: Booted, units: NodeUnits) -> dict[str, bytes]:
    """Read the node's units and their environments."""
    files = (*machine.units.glob("tempolet-up*"), *units.environments.glob("*.env"))
    return {one.name: one.read_bytes() for one in files if one.is_file()}


def _written(units: NodeUnits) -> set[Path]:
    """Return the folders of the releases that the next starts are of."""
    lines = [line for role in OF_A_RELEASE for line in (units.environments / f"{role}.env").read_text().splitlines()]
    named = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PYTHONPATH=")]
    assert len(named) == len(OF_A_RELEASE)
    return {Path(one) for one in named}
