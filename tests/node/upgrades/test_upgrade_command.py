"""Does `tempolet upgrade` switch a node of `tempolet up` to this release, with its pods untouched, and back if that fails?

Each release is a folder of its own, and its `tempolet upgrade`, worker and poller are processes of their own. The release before is a copy of
this one without the newest behaviours; the broken ones are copies with a defect. All rows share one node, which each failed
upgrade leaves as it was; the one that succeeds is the last.
"""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from proto.pod_snapshot import PodSnapshot, read_snapshots
from tests.node.standalone.standalone_node import manifest, pids, silent, standalone_node
from tests.node.tempolet_node import ROOT
from tests.node.upgrades.releases import PATIENT, release, release_of, upgrade
from tests.waiting import wait_until
from worker.behaviours.commitment import NEWEST, UPGRADE, Behaviours, Commitment
from worker.commands.access.exits import Exit
from worker.standalone import node_config
from worker.standalone.cri_client import CriClient
from worker.standalone.machine.python_modules import ModuleCommand, module_command
from worker.standalone.settings import Settings
from worker.standalone.up import up
from worker.telemetry.process_state import process_state

OLDER: Final = """
for _known in (BEHAVIOURS, NODE_BEHAVIOURS):
    del _known[max(_known)]
CURRENT, CURRENT_NODE = max(BEHAVIOURS), max(NODE_BEHAVIOURS)
"""
DIES: Final = """
raise SystemExit("this release is broken")
"""
NEVER_READY: Final = """
Service.ready = lambda *_: None
"""
LATE: Final = """
_run = PodLoop.run


async def _late(loop):
    from temporalio import workflow

    await (workflow.sleep(0.01) if workflow.in_workflow() else asyncio.sleep(0.01))
    return await _run(loop)


PodLoop.run = _late
"""
LOOK_AGAIN: Final = 0.02
ROLES: Final = ("worker", "poller")


@dataclass(frozen=True)
class Broken:
    """A release with a defect."""

    file: str
    defect: str
    says: str
    """Of its upgrade."""
    code: Exit = Exit.FAILED
    within: float = PATIENT
    touched: tuple[str, ...] = ("worker",)
    """The processes that were restarted."""


BROKEN: Final = {
    "its-worker-dies-at-start": Broken("worker/processes/worker.py", DIES, "this release is broken"),
    "its-poller-dies-at-start": Broken(
        "worker/processes/poller.py", DIES, "this release is broken", touched=("worker", "poller")
    ),
    "its-worker-is-never-ready": Broken(
        "worker/daemon/service.py", NEVER_READY, "the worker does not work after 3 s", within=3.0
    ),
    "its-code-does-not-replay": Broken(
        "workflows/loops/pod_loop.py", LATE, "cannot go on with this release", Exit.REPLAY_DIFFERS, touched=()
    ),
}


@pytest.fixture(scope="module")
def release_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the release before."""
    return release(tmp_path_factory.mktemp("release-before"), "workflows/decide/versions.py", OLDER)


@pytest.fixture(scope="module")
def node(
    slot: int, node_dir: Path, tmp_path_factory: pytest.TempPathFactory, release_before: Path
) -> Iterator[Settings]:
    """Run a node of the release before, with one pod."""

    def of_release_before(module: str) -> ModuleCommand:
        return ModuleCommand(module_command(module).argv, {"PYTHONPATH": str(release_before)})

    with standalone_node(slot, node_dir) as settings:
        with pytest.MonkeyPatch.context() as before:
            before.setattr(node_config, "module_command", of_release_before)
            up(settings, [manifest(tmp_path_factory.mktemp("manifests"), "web")], silent())
        yield settings


def pod(node: Settings) -> PodSnapshot:
    """Return the node's pod."""
    (found,) = read_snapshots(node.root_dir)
    return found


def container_pid(node: Settings) -> int:
    """Return the pid of the pod's container."""
    with CriClient(node.runtime_socket) as runtime:
        return runtime.container(pod(node).containers["main"].container_id)[0]


def restarts_work(node: Settings) -> None:
    """Kill the container, and wait until the pod is ready again."""
    restarts = pod(node).restarts
    os.kill(container_pid(node), signal.SIGKILL)
    wait_until(lambda: pod(node).ready and pod(node).restarts == restarts + 1, "the container runs again")


def hosts(node: Settings, pid: int) -> bool:
    """Report whether this worker leads the pod on. (To kill its container in each row would take a longer back-off each time.)"""
    told = asyncio.run(process_state(node.root_dir / "tempolet", "worker", timedelta(seconds=2)))
    return told is not None and (told.pid, told.hosts) == (pid, True)


def committed(node: Settings) -> Behaviours:
    """Return the behaviours that the node is committed to."""
    return Commitment(node.root_dir / "tempolet").numbers


@contextlib.contextmanager
def untouched(node: Settings) -> Iterator[None]:
    """Look at the pod all the time while the block runs: it stays ready, with its container and its number of restarts."""
    before, container, over, seen = pod(node), container_pid(node), threading.Event(), set[tuple[bool, int]]()

    def look() -> None:
        while not over.wait(LOOK_AGAIN):
            seen.update((one.ready, one.restarts) for one in read_snapshots(node.root_dir))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    assert seen == {(True, before.restarts)}
    assert container_pid(node) == container


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_the_release_before_is_brought_back(
    node: Settings, release_before: Path, broken: Broken, tmp_path: Path
) -> None:
    """The pod is untouched and led on, and the node is not committed to the broken release."""
    before = pids(node)
    with untouched(node):
        code, said = upgrade(node, release(tmp_path / "broken", broken.file, broken.defect), broken.within)
    assert code == broken.code, said
    assert broken.says in said
    assert (f"back on {release_before}" if broken.touched else "nothing was changed") in said
    after = pids(node)
    assert {name for name in after if after[name] != before[name]} == set(broken.touched)
    assert {release_of(after[role]) for role in ROLES} == {str(release_before)}
    assert committed(node) == Behaviours(NEWEST.pods - 1, NEWEST.node - 1)
    assert not (node.root_dir / "tempolet" / UPGRADE).exists()
    wait_until(lambda: hosts(node, after["worker"]), "the worker hosts the pods")


def test_a_node_is_switched_to_this_release(node: Settings, release_before: Path) -> None:
    """The pod is untouched; the node is committed afterwards, as `up` configures it; a second upgrade has nothing to do."""
    before = pids(node)
    assert committed(node) == Behaviours(NEWEST.pods - 1, NEWEST.node - 1)
    with untouched(node):
        code, said = upgrade(node, ROOT)
    assert code == Exit.DONE, said
    assert f"from {release_before} to build" in said
    assert said.index("worker pid") < said.index("poller pid") < said.index("✓ 1 containers run on with the same pids")
    after = pids(node)
    assert {name for name in after if after[name] != before[name]} == set(ROLES)
    assert {release_of(after[role]) for role in ROLES} == {str(ROOT)}
    assert committed(node) == NEWEST
    assert not (node.root_dir / "tempolet" / UPGRADE).exists()
    restarts_work(node)
    code, said = upgrade(node, ROOT)
    assert (code, "this release already" in said) == (Exit.FAILED, True)
