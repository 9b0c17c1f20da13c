"""Under a real systemd: does a node of `tempolet up` come back after a crash of each process, and at a boot, and is nothing of it left?

Its Temporal runs as a user that `up` makes, in an /etc of this test's own, with the database of a release that ran it as root.

A boot is played: another systemd starts with the same units and an empty /run. `tests/machine/reboots` does it with real ones.
"""

import contextlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from proto.pod_snapshot import read_snapshots
from tests.node.standalone.standalone_node import manifest, standalone_node
from tests.waiting import wait_until
from tests.worker.daemon.systemd_machine import Machine, skip_unless_possible
from tests.worker.standalone.temporal.earlier_temporal import earlier, make_namespace, operator, status, temporal_pid
from worker.standalone.containerd import CNI_CACHE
from worker.standalone.gateway.kept_capability import CAP_BLOCK_SUSPEND
from worker.standalone.gateway.server_account import USER
from worker.standalone.machine.units import UNITS
from worker.standalone.settings import Settings

pytestmark = [pytest.mark.node, pytest.mark.systemd]

ROLES = ("containerd", "temporal", "worker", "poller")
CHECKOUT = Path(__file__).parents[3]
FIRST_WORDS = {"containerd": "starting containerd", "worker": "Starting tempolet", "poller": "Starting tempolet"}
SECONDS = 300.0
BOOTED = "[Unit]\nDefaultDependencies=no\nAllowIsolate=yes\nRequires=multi-user.target\nAfter=multi-user.target\n"


@contextlib.contextmanager
def node_of_units(slot: int, node_dir: Path, name: str) -> Iterator[Settings]:
    """Yield the settings of a node whose run folder is in /run, which a boot empties; nothing of it is left by a test that failed."""
    skip_unless_possible()
    with standalone_node(slot, node_dir, name) as settings:
        node = replace(settings, run_dir=Path(f"/run/tempolet-{name}{slot}"), systemd=True)
        try:
            yield node
        finally:
            node.record_for_boot.unlink(missing_ok=True)


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node."""
    with node_of_units(slot, node_dir, "sd") as settings:
        yield settings


class Booted(Machine):
    """A systemd that starts what is enabled, and where `up` finds it; with users of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.add_journal()
        self.etc = folder / "etc"
        shutil.copytree("/etc", self.etc, symlinks=True)
        self.prepared = f"mount --bind {self.etc} /etc; mount --bind {self.units} {UNITS}"

    def __enter__(self) -> "Booted":
        super().__enter__()
        return self

    def tempolet(self, node: Settings, *words: str, release: Path = CHECKOUT, check: bool = True) -> str:
        """Run a command of a release for the node."""
        variables = (f"PYTHONPATH={release}", f"TEMPOLET_RUN_DIR={node.run_dir}")
        module = (sys.executable, "-m", "worker.cli", *words)
        return self.inside("env", f"--chdir={release}", *variables, *module, seconds=SECONDS, check=check)

    def uid(self, user: str) -> str:
        """Return the number of a user; empty if there is none."""
        entries = [line.split(":") for line in (self.etc / "passwd").read_text().splitlines()]
        return next((fields[2] for fields in entries if fields[0] == user), "")

    def process(self, unit: str) -> str:
        """Return the pid of a unit's process; 0 if it has none."""
        return self.show(unit)["MainPID"]


def up(node: Settings, *manifests: Path) -> list[str]:
    """Return the command line of `up`."""
    options = {
        "--state-dir": node.state_dir,
        "--bridge": node.network.bridge,
        "--pod-cidr": node.network.subnet,
        "--cgroup-root": node.cgroup,
        "--hostname-override": node.hostname_override,
        "--temporal-ui-port": node.ports.ui,
        "--healthz-port": 0,
    }
    return ["up", *map(str, manifests), *(str(word) for pair in options.items() for word in pair)]


def test_a_crash_and_a_boot_bring_the_node_back(node: Settings, tmp_path: Path) -> None:
    """Each process after kill -9, with the pod untouched; at a boot everything, with one restart; `down` removes all units."""
    machine = Booted(tmp_path)
    assert node.units is not None
    prefix = node.units.prefix
    user, temporal = node.temporal_user.name, f"{prefix}-temporal.service"
    with earlier(replace(node, run_dir=node.state_dir.parent / "run").temporal) as of_root:
        make_namespace(of_root, "of-the-earlier-release")
    with machine:
        _logs_to_the_journal(machine, node, machine.tempolet(node, *up(node, manifest(tmp_path, "web"))))
        container = _container(node)
        assert _uid_of_temporal(machine, temporal) == machine.uid(user) != ""
        found = status(temporal_pid(machine.pid(temporal)))
        assert (found["NoNewPrivs"], found["Seccomp"], found["CapEff"]) == (
            ["1"],
            ["2"],
            [f"{1 << CAP_BLOCK_SUSPEND:016x}"],
        )
        assert len(_pids_seen_by(machine, temporal)) == 1, "ls alone"
        assert "of-the-earlier-release" in machine.inside(*operator(node.temporal), "list")
        machine.inside("kill", "-9", _temporal_inside(machine, temporal))
        wait_until(lambda: _uid_of_temporal(machine, temporal) == machine.uid(user), "another Temporal")
        for role in ROLES:
            unit = f"{prefix}-{role}.service"
            before = machine.kill(unit)
            wait_until(lambda unit=unit, before=before: machine.process(unit) not in {"0", before}, f"another {role}")  # type: ignore[misc]  # called at once
        again = machine.tempolet(node, *up(node))
        assert again.count("runs already") == len(ROLES), again
        assert ", as root" not in again
        _start_as_an_earlier_release(machine, node, temporal)
        assert "runs already, as root" in machine.tempolet(node, *up(node))
        machine.systemctl("stop", temporal)
        assert machine.tempolet(node, *up(node)).count("runs already") == len(ROLES) - 1
        assert _uid_of_temporal(machine, temporal) == machine.uid(user)
        assert _container(node) == container
        assert _restarts(node) == 0
    cached = list(CNI_CACHE.glob(f"{node.network.bridge}-*"))
    assert cached
    for entry in cached:
        os.truncate(entry, 0)  # as a power loss does
    of_nobody = CNI_CACHE / f"{node.network.bridge}-{'0' * 64}-eth0"
    of_nobody.write_text("{}")  # the plug was pulled before containerd knew the sandbox
    machine.write("default.target", BOOTED)
    with machine:
        wait_until(lambda: _restarts(node) == 1 and _container(node) != container, "the pod to be back")
        assert not of_nobody.exists()
        assert machine.show(f"{prefix}-boot.service")["Result"] == "success"
        assert _uid_of_temporal(machine, temporal) == machine.uid(user)
        pods = json.loads(machine.tempolet(node, "pods", "-o", "json"))["pods"]
        assert [(pod["name"], pod["phase"]) for pod in pods] == [("web-n1", "Running")]
        machine.tempolet(node, "down", "--purge")
        assert [one.name for one in machine.units.rglob("tempolet-up*")] == []
        assert not node.state_dir.exists()
        assert machine.uid(user) == ""
        assert user not in (machine.etc / "group").read_text()
        assert "0 loaded units" in machine.systemctl("list-units", "--all", "tempolet-up*")


def _logs_to_the_journal(machine: Booted, node: Settings, said: str) -> None:
    """Run the command that `up` has shown for the services' logs: each is there, and in no file."""
    (shown,) = (line for line in said.splitlines() if line.startswith("logs "))
    pods, _, command = shown.removeprefix("logs").strip().partition("; of the services: ")
    assert pods == str(node.logs / "pods")
    told = machine.inside(*shlex.split(command), "--no-pager", "--output=short-monotonic")
    for role, words in FIRST_WORDS.items():
        assert any(f" tempolet-{role}[" in line and words in line for line in told.splitlines()), (role, told)
        assert not (node.logs / f"{role}.log").exists()


def _start_as_an_earlier_release(machine: Booted, node: Settings, unit: str) -> None:
    """Let the unit's gateway be told nothing of a user, as by the unit of such a release."""
    environment = node.state_dir / "units" / "temporal.env"
    lines = [line for line in environment.read_text().splitlines(keepends=True) if not line.startswith(USER)]
    environment.write_text("".join(lines))
    machine.systemctl("restart", unit)
    wait_until(lambda: _uid_of_temporal(machine, unit) == "0", "Temporal as root")


def _uid_of_temporal(machine: Booted, unit: str) -> str:
    """Return the uid of Temporal itself; empty if it does not run."""
    with contextlib.suppress(OSError, ValueError, AssertionError):
        return status(temporal_pid(machine.pid(unit)))["Uid"][0]
    return ""


def _pids_seen_by(machine: Booted, unit: str) -> list[str]:
    """Return the processes that Temporal's user, in another group, sees from where Temporal is."""
    pid, uid = _temporal_inside(machine, unit), _uid_of_temporal(machine, unit)
    as_it = ("setpriv", "--reuid", uid, "--regid", "65534", "--clear-groups")  # group 0 sees all of them
    listed = ("nsenter", "--target", pid, "--mount", *as_it, "ls", "/proc")
    return [one for one in machine.inside(*listed).split() if one.isdigit()]


def _temporal_inside(machine: Booted, unit: str) -> str:
    """Return the pid of Temporal itself, as those inside know it."""
    return status(temporal_pid(machine.pid(unit)))["NSpid"][-1]


def _container(node: Settings) -> str:
    (pod,) = read_snapshots(node.root_dir)
    return pod.containers["main"].container_id


def _restarts(node: Settings) -> int:
    return sum(pod.restarts for pod in read_snapshots(node.root_dir) if pod.ready)
