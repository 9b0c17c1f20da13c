"""Does 10248 report the health of all three processes, and does only one of them serve it?"""

import asyncio
import urllib.error
import urllib.request
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.free_ports import free_port
from worker.commands.serve import own_healthz
from worker.daemon.config import NodeConfig
from worker.daemon.health import LoopHealth
from worker.daemon.node_lock import hold_node_lock
from worker.node.process.healthz import serving_healthz, sync_loop
from worker.node.process.peers import GRACE_SECONDS, PeerProcesses
from worker.settings.cluster import ClusterSettings
from worker.settings.flags import Flags

CLUSTER = ClusterSettings(kubeconfig=Path("/kubeconfig"))


async def read(port: int, path: str) -> tuple[int, str]:
    """Request it; returns status and text."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    return await asyncio.to_thread(ask)


async def test_it_is_well_while_all_three_work(tmp_path: Path) -> None:
    """Otherwise it names a process that is gone, or a loop that is stuck."""
    now = [0.0]
    health, processes = LoopHealth("node"), PeerProcesses(tmp_path, lambda: now[0])
    config = NodeConfig("n1", root_dir=tmp_path, healthz_port=free_port())
    port = config.healthz_port
    async with serving_healthz(config, health, processes):
        await asyncio.sleep(0)  # the endpoint opens
        with hold_node_lock(tmp_path, "worker"), hold_node_lock(tmp_path, "poller"):
            now[0] = 10 * GRACE_SECONDS
            for path in ("", "/ping", "/log", "/syncloop"):
                assert await read(port, f"/healthz{path}") == (200, "ok")
        now[0] += GRACE_SECONDS
        said = "tempolet worker is not running, tempolet poller is not running"
        assert await read(port, "/healthz") == (500, said)
        assert await read(port, "/healthz/syncloop") == (500, said)
        assert await read(port, "/healthz/ping") == (200, "ok")
        health.turn("node status", timedelta(days=-1))  # overdue
        assert (await read(port, "/healthz"))[1] == "the node's loop for node status is stuck"
        for path in (
            "/healthz/elsewhere",
            "/debug/pprof/",
            "/debug/pprof/goroutine",
            "/debug/flags/v",
            "/pods",
            "/configz",
        ):
            assert (await read(port, path))[0] == 404, "nobody shows credentials here (CVE-2019-11248)"


async def test_it_is_well_only_once_worker_and_poller_have_come_up(tmp_path: Path) -> None:
    """The worker has when it has made the pods' cgroups, which needs neither Temporal nor the API server; later restarts do not count."""
    tiers: list[str] = []
    processes = PeerProcesses(tmp_path, lambda: 0.0, tiers=lambda: bool(tiers))
    worker, poller = "tempolet worker has not started yet", "tempolet poller has not started yet"

    def said() -> str:
        return sync_loop(LoopHealth("node"), processes)

    assert said() == f"{worker}, {poller}"
    with hold_node_lock(tmp_path, "poller"):
        assert said() == worker
        with hold_node_lock(tmp_path, "worker"):
            assert said() == worker, "it has made no cgroups"
            assert processes.troubles() == (), "and yet the node may be Ready"
            tiers.append("kubepods")
            assert not said()
        tiers.clear()
        assert not said(), "it starts again"
    assert not said()


async def test_what_a_look_for_the_ready_condition_saw_counts(tmp_path: Path) -> None:
    """Nobody has asked for healthz before the worker starts again."""
    processes = PeerProcesses(tmp_path, lambda: 0.0)
    with hold_node_lock(tmp_path, "worker"), hold_node_lock(tmp_path, "poller"):
        processes.troubles()
    assert processes.unstarted() == ()


async def test_on_port_0_nobody_answers(tmp_path: Path) -> None:
    """healthzPort: 0."""
    config = NodeConfig("n1", root_dir=tmp_path, healthz_port=0)
    async with serving_healthz(config, LoopHealth("node"), PeerProcesses(tmp_path)):
        assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("role", "cluster", "keys", "port"),
    [
        pytest.param("node", True, {}, 10248, id="the-node-answers-for-all"),
        pytest.param("worker", True, {}, 0, id="in-a-cluster-the-worker-does-not"),
        pytest.param("poller", True, {}, 0, id="nor-does-the-poller"),
        pytest.param("worker", True, {"healthzPort": 10246}, 10246, id="unless-its-own-flag-says-so"),
        pytest.param("worker", False, {}, 10248, id="by-itself-the-worker-does"),
    ],
)
def test_who_answers(role: str, cluster: bool, keys: dict[str, int], port: int) -> None:
    """The file's healthzPort is one for three processes."""
    config = NodeConfig("n1", healthz_port=keys.get("healthzPort", 10248))
    config = replace(config, cluster=CLUSTER if cluster else None)
    assert own_healthz(role, Flags(keys=keys), config).healthz_port == port
