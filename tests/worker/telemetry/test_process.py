"""Does a process serve its endpoints as configured, also while it waits, and if a port is taken at first?"""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.patience import PATIENCE
from worker.daemon.config import NodeConfig
from worker.daemon.troubles import Troubles
from worker.endpoints import listen
from worker.settings.tempolet_configuration import tempolet_configuration
from worker.telemetry.local_socket import failing_loops
from worker.telemetry.process import Telemetry, open_telemetry


def configuration(tmp_path: Path, healthz: int, **keys: Any) -> NodeConfig:
    """Return a node's configuration; `keys` are TempoletConfiguration's."""
    tempolet = tempolet_configuration(keys)
    return NodeConfig("node-1", root_dir=tmp_path, healthz_port=healthz, tempolet=tempolet)


@asynccontextmanager
async def shown(config: NodeConfig, fault: str = "") -> AsyncIterator[Telemetry]:
    """Open the telemetry of a worker that is healthy, or has an error."""
    async with open_telemetry(config, "worker", lambda: fault) as telemetry:
        yield telemetry


async def read(port: int, path: str) -> str:
    """Request a path, as soon as something listens there."""

    def ask() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(listens, port):  # noqa: ASYNC110 - opened by a task of its own: no event to await
            await asyncio.sleep(0.02)
        return await asyncio.to_thread(ask)


def listens(port: int) -> bool:
    """Report whether a connection is accepted."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_metrics_stand_beside_healthz(tmp_path: Path) -> None:
    """Without an address of their own they need no second port; /healthz reports the process's error."""
    port = free_port()
    async with shown(configuration(tmp_path, port)) as telemetry:
        assert await read(port, "/healthz") == "ok"
        telemetry.metrics.runtime_operation("Version", 0.1, failed=False)
        text = await read(port, "/metrics")
        assert 'kubelet_runtime_operations_total{operation_type="version"} 1.0' in text
        for path in (
            "/debug/pprof/",
            "/debug/pprof/goroutine",
            "/debug/flags/v",
            "/pods",
            "/exec/a/b/c",
            "/configz",
            "/logs/",
        ):
            with pytest.raises(urllib.error.HTTPError, match="404"):  # nobody shows credentials here (CVE-2019-11248)
                await read(port, path)
        assert telemetry.plugins == ()
    assert not listens(port)


async def test_metrics_with_an_address_of_their_own_leave_healthz(tmp_path: Path) -> None:
    """For a Prometheus elsewhere, without exposing healthz."""
    health, own = free_port(), free_port()
    config = configuration(tmp_path, health, metrics={"bindAddress": f"127.0.0.1:{own}"})
    async with shown(config):
        assert "kubelet_node_name" in await read(own, "/metrics")
        assert await read(health, "/healthz") == "ok"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            await read(health, "/metrics")


async def test_nothing_listens_where_nothing_is_configured(tmp_path: Path) -> None:
    """With healthzPort 0 and no other address."""
    async with shown(configuration(tmp_path, 0)) as telemetry:
        assert telemetry.metrics._sdk is None


async def test_the_worker_decodes_for_the_ui_with_a_token_made_at_once(tmp_path: Path) -> None:
    """Key and token files are created if missing."""
    port = free_port()
    codec = {"address": f"127.0.0.1:{port}", "allowedOrigins": ["http://127.0.0.1:8233"]}
    config = configuration(tmp_path, 0, codec=codec)
    async with shown(config):
        token = config.codec_token_file.read_text().strip()
        with pytest.raises(urllib.error.HTTPError, match="405"):
            await read(port, f"/{token}/decode")
    assert config.payload_key_file.stat().st_mode & 0o777 == 0o600


async def test_a_decode_endpoint_for_others_stops_the_start(tmp_path: Path) -> None:
    """The process does not run, instead of only logging an error."""
    config = configuration(tmp_path, 0, codec={"address": "0.0.0.0:8234"})
    with pytest.raises(ValueError, match="loopback only"):
        async with shown(config):
            pass


async def test_a_port_that_is_taken_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous process may not have ended yet."""
    monkeypatch.setattr(listen, "TRY_AGAIN", timedelta(milliseconds=20))
    with socket.socket() as before:
        before.bind(("127.0.0.1", 0))
        before.listen(1)
        port = before.getsockname()[1]
        config = configuration(tmp_path, port)
        async with shown(config):
            await asyncio.sleep(0.05)
            before.close()
            assert await read(port, "/healthz") == "ok"


async def test_a_loop_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By /healthz, by the metrics, and to the node process and `tempolet pods`, until it works again."""
    troubles, port = Troubles(), free_port()
    monkeypatch.setattr("worker.telemetry.process.PROCESS_TROUBLES", troubles)
    monkeypatch.setattr("worker.telemetry.call_metrics.TROUBLES", troubles)
    config = configuration(tmp_path, port)
    async with shown(config):
        assert await read(port, "/healthz") == "ok"
        troubles.failed("log rotation", OSError("no space left"))
        with pytest.raises(urllib.error.HTTPError, match="50"):
            await read(port, "/healthz")
        assert 'tempolet_loop_failing{loop="log rotation"} 1.0' in await read(port, "/metrics")
        told = await failing_loops(config.state_dir, ("worker", "poller"), timedelta(seconds=5))
        assert told == ("worker: log rotation: OSError: no space left",)
        troubles.works("log rotation")
        assert await read(port, "/healthz") == "ok"
        text = await read(port, "/metrics")
        assert 'tempolet_loop_failing{loop="log rotation"} 0.0' in text
        assert 'tempolet_loop_failures_total{loop="log rotation"} 1.0' in text
        assert await failing_loops(config.state_dir, ("worker",), timedelta(seconds=5)) == ()
