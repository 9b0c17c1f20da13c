"""Does `tempolet upgrade` switch a node of `tempolet up` to this release, with its containers untouched, and back if that fails?

The release before is a copy of this one without the newest behaviours.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from proto.pod_snapshot import PodSnapshot, read_snapshots
from tests.node.standalone.standalone_node import manifest, pids, silent, standalone_node
from tests.node.standalone.test_up_and_down import wait_until
from tests.node.tempolet_node import ROOT
from worker.behaviours.commitment import NEWEST, UPGRADE, Behaviours, Commitment
from worker.commands import upgrade
from worker.commands.access.exits import CommandFailed, Exit
from worker.daemon.config import load_node_config
from worker.standalone import node_config
from worker.standalone.cri_client import CriClient
from worker.standalone.machine.process import Command
from worker.standalone.machine.python_modules import ModuleCommand, module_command
from worker.standalone.node_config import node_command, node_flags
from worker.standalone.settings import RUN_VARIABLE, Settings
from worker.standalone.up import up
from worker.upgrades import up_processes

PACKAGES: Final = ("proto", "workflows", "activities", "worker")
OLDER: Final = """
for _known in (BEHAVIOURS, NODE_BEHAVIOURS):
    del _known[max(_known)]
CURRENT, CURRENT_NODE = max(BEHAVIOURS), max(NODE_BEHAVIOURS)
"""
WITHIN: Final = 200.0


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the release before."""
    folder = tmp_path_factory.mktemp("release-before")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "workflows" / "decide" / "versions.py").open("a") as file:
        file.write(OLDER)
    return folder


@pytest.fixture
def node(
    slot: int, node_dir: Path, tmp_path: Path, release_before: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """Run a node of the release before, with one pod."""

    def of_release_before(module: str) -> ModuleCommand:
        return ModuleCommand(module_command(module).argv, {"PYTHONPATH": str(release_before)})

    with standalone_node(slot, node_dir) as settings:
        monkeypatch.setenv(RUN_VARIABLE, str(settings.run_dir))
        with monkeypatch.context() as before:
            before.setattr(node_config, "module_command", of_release_before)
            up(settings, [manifest(tmp_path, "web")], silent())
        yield settings


def run(node: Settings) -> Exit:
    """Upgrade to this release, as its `tempolet upgrade` does."""
    return upgrade.run(load_node_config(node_flags(node)), within=WITHIN, force=False)


def pod(node: Settings) -> PodSnapshot:
    """Return the node's pod."""
    (found,) = read_snapshots(node.root_dir)
    return found


def container_pid(node: Settings) -> int:
    """Return the pid of the pod's container."""
    with CriClient(node.runtime_socket) as runtime:
        return runtime.container(pod(node).containers["main"].container_id)[0]


def release_of(pid: int) -> str:
    """Return the folder of the release that a process is of."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return next(one.removeprefix("PYTHONPATH=") for one in variables if one.startswith("PYTHONPATH="))


def restarts_work(node: Settings) -> None:
    """Kill the container, and wait until the pod is ready again."""
    restarts = pod(node).restarts
    os.kill(container_pid(node), signal.SIGKILL)
    wait_until(lambda: pod(node).ready and pod(node).restarts == restarts + 1)


def test_a_node_is_switched_to_this_release(
    node: Settings, release_before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The container runs on; the node is committed afterwards, as `up` configures it; a second upgrade has nothing to do."""
    before, container = pids(node), container_pid(node)
    older = Behaviours(NEWEST.pods - 1, NEWEST.node - 1)
    assert Commitment(node.root_dir / "tempolet").numbers == older
    assert run(node) is Exit.DONE
    said = capsys.readouterr().out
    assert f"from {release_before} to build" in said
    assert "✓ 1 containers run on with the same pids" in said
    after = pids(node)
    assert {name for name in after if after[name] != before[name]} == {"worker", "poller"}
    assert {release_of(after[role]) for role in ("worker", "poller")} == {str(ROOT)}
    assert container_pid(node) == container
    assert Commitment(node.root_dir / "tempolet").numbers == NEWEST
    assert not (node.root_dir / "tempolet" / UPGRADE).exists()
    restarts_work(node)
    with pytest.raises(CommandFailed, match="this release already"):
        run(node)


@pytest.mark.parametrize("broken", ["worker", "poller"])
def test_the_release_before_is_brought_back(
    node: Settings, release_before: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of this release does not start; the pod is led on, and the node is not committed to this release."""
    container = container_pid(node)

    def failing(settings: Settings, role: str) -> Command:
        ours = node_command(settings, role)
        argv = [ours.argv[0], "-c", "raise SystemExit('this release is broken')"] if role == broken else ours.argv
        return Command(argv, ours.log, ours.environment, ours.umask)

    monkeypatch.setattr(up_processes, "node_command", failing)
    with pytest.raises(CommandFailed, match=f"(?s)the {broken} .*this release is broken.*back on {release_before}"):
        run(node)
    after = pids(node)
    assert {release_of(after[role]) for role in ("worker", "poller")} == {str(release_before)}
    assert container_pid(node) == container
    assert Commitment(node.root_dir / "tempolet").numbers == Behaviours(NEWEST.pods - 1, NEWEST.node - 1)
    assert not (node.root_dir / "tempolet" / UPGRADE).exists()
    restarts_work(node)
