"""Fixtures of the node tests, beside the session's containerd and Temporal: a node for each file, and activities without a node."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.node import acting as on_containerd
from tests.node.after_failure import pytest_runtest_call  # noqa: F401 - a hook, found by its name
from tests.node.tempolet_node import TempoletNode, tempolet_node
from worker.standalone.containerd import Containerd
from worker.standalone.machine import programs
from worker.standalone.temporal_server import TemporalServer

BUSYBOX: Final = on_containerd.BUSYBOX
QUICK: Final = {
    "featureGates": {"KubeletCrashLoopBackOffMax": True},
    "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
}
"""Crash loops wait a second at most."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it with a reason where it cannot run."""
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = cannot_run() if ours else ""
    for item in ours:
        item.add_marker("node")
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def node(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    containerd: Containerd,
    temporal: TemporalServer,
) -> Iterator[TempoletNode]:
    """Run one node for all tests of a file, with the KubeletConfiguration that the file sets in NODE_KEYS, or QUICK; AS_PROGRAMS if it sets that."""
    keys = dict(getattr(request.module, "NODE_KEYS", QUICK))
    as_programs = getattr(request.module, "AS_PROGRAMS", False)
    with tempolet_node(
        tmp_path_factory.mktemp("node"), containerd, temporal, keys=keys, as_programs=as_programs
    ) as made:
        yield made


@pytest.fixture
async def acting(containerd: Containerd, tmp_path: Path) -> AsyncIterator[on_containerd.Acting]:
    """Return the activities on this containerd, with folders for this test."""
    async with on_containerd.acting_on(containerd, tmp_path) as made:
        yield made


def cannot_run() -> str:
    """Return why a node cannot run on this machine, or an empty string."""
    if os.geteuid() != 0:
        return "needs root: containerd, mounts and network namespaces"
    try:
        for program in (programs.CONTAINERD, programs.RUNC, programs.CTR, programs.TEMPORAL):
            programs.find_program(program)
        programs.find_cni_plugins()
    except programs.MissingProgram as error:
        return str(error)
    return ""
