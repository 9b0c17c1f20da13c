"""Does systemd get its notifications in the right order, and is the watchdog only fed while the service is healthy?"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.activities.jumping_clock import JumpingClock
from tests.patience import PATIENCE
from worker.daemon.service import Service

WATCHDOG = "150000"  # microseconds


class Systemd:
    """The listening end of sd_notify."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)

    async def hears(self) -> list[str]:
        """Wait for the next datagram and give its lines."""
        data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.socket, 4096), PATIENCE)
        return data.decode().split("\n")

    def waiting(self) -> list[str]:
        """Return all lines that were sent and not yet heard."""
        lines: list[str] = []
        while True:
            try:
                lines += self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return lines


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name a socket of both kinds that systemd uses."""
    return (
        str(tmp_path / "notify") if request.param == "path" else f"@tempolet-test-{os.getpid()}-{time.monotonic_ns()}"
    )


@pytest.fixture
def systemd(address: str) -> Iterator[Systemd]:
    """Listen at that socket."""
    listener = Systemd(address)
    yield listener
    listener.socket.close()


def healthy() -> str:
    """Be well."""
    return ""


async def test_a_life_as_systemd_hears_it(address: str, systemd: Systemd) -> None:
    """READY with a status, a changed status once, a note behind each, STOPPING; children do not inherit the environment variables."""
    environment = {"NOTIFY_SOCKET": address, "OTHER": "1"}
    async with Service(healthy, environment) as service:
        assert environment == {"OTHER": "1"}
        service.ready("110 pods")
        assert await systemd.hears() == ["READY=1", "STATUS=110 pods"]
        service.status("110 pods")
        service.status("waiting for\nTemporal")
        assert await systemd.hears() == ["STATUS=waiting for Temporal"]
        service.note("it does not answer")
        assert await systemd.hears() == ["STATUS=waiting for Temporal; it does not answer"]
        service.ready("3 pods")
        assert await systemd.hears() == ["READY=1", "STATUS=3 pods; it does not answer"]
        service.note("")
        assert await systemd.hears() == ["STATUS=3 pods"]
    assert await systemd.hears() == ["STOPPING=1", "STATUS=stopping"]


async def test_each_subject_has_a_note(address: str, systemd: Systemd) -> None:
    """One that is over does not end the other."""
    async with Service(healthy, {"NOTIFY_SOCKET": address}) as service:
        service.note("no answer")
        service.note("leads 2 pods", about="leads")
        service.note("")
        assert [await systemd.hears() for _ in range(3)] == [
            ["STATUS=no answer"],
            ["STATUS=no answer; leads 2 pods"],
            ["STATUS=leads 2 pods"],
        ]


def test_the_watchdog_is_fed_while_all_is_well(address: str, systemd: Systemd) -> None:
    """At least twice within its limit, by a clock that no busy machine hurries."""

    async def live() -> None:
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": WATCHDOG, "WATCHDOG_PID": str(os.getpid())}
        async with Service(healthy, environment):
            begun = asyncio.get_running_loop().time()
            for _ in range(3):
                assert await systemd.hears() == ["WATCHDOG=1"]
            assert asyncio.get_running_loop().time() - begun < 0.15

    with asyncio.Runner(loop_factory=JumpingClock) as runner:
        runner.run(live())


@pytest.mark.parametrize("fault", [pytest.param("the cache is stuck", id="reason"), pytest.param(None, id="raises")])
async def test_an_unhealthy_process_starves_its_watchdog_and_says_why(
    address: str, systemd: Systemd, fault: str | None
) -> None:
    """No WATCHDOG=1 at all, and the reason in the status."""

    def health() -> str:
        if fault is None:
            raise RuntimeError("the cache is stuck")
        return fault

    async with Service(health, {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": WATCHDOG}):
        for _ in range(3):
            [line] = await systemd.hears()
            assert line.startswith("STATUS=unhealthy")
            assert "the cache is stuck" in line


async def test_a_stuck_loop_starves_the_watchdog(address: str, systemd: Systemd) -> None:
    """While the loop is blocked nothing is sent, whatever threads do."""
    async with Service(healthy, {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": WATCHDOG}):
        await systemd.hears()
        systemd.waiting()
        time.sleep(0.3)  # noqa: ASYNC251 - the planted fault
        assert systemd.waiting() == []


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="outside-systemd"),
        pytest.param({"NOTIFY_SOCKET": "/nowhere/notify"}, id="nobody-listens"),
        pytest.param({"WATCHDOG_USEC": WATCHDOG}, id="a-watchdog-without-a-socket"),
    ],
)
async def test_outside_systemd_nothing_breaks(environment: dict[str, str]) -> None:
    """A process started by hand lives the same life."""
    async with Service(healthy, environment) as service:
        service.ready("ready")
        service.stop()
        await service.stop_requested()


async def test_another_processes_watchdog_is_not_ours(address: str, systemd: Systemd) -> None:
    """WATCHDOG_PID of a parent process means that systemd does not watch this one."""
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": WATCHDOG, "WATCHDOG_PID": "1"}
    async with Service(healthy, environment) as service:
        service.ready("ready")
        assert (await systemd.hears())[0] == "READY=1"
        await asyncio.sleep(0.1)
        assert systemd.waiting() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_asks_for_a_stop(number: signal.Signals) -> None:
    """Both signals end the wait, and have Python's own effect again afterwards."""
    async with Service(healthy, {}) as service:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(service.stop_requested(), PATIENCE)
    assert signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}
