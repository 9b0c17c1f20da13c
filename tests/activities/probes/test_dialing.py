"""Can a name server that does not answer hold more than those who ask it?"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from activities.probes.dialing import dial
from activities.probes.tcp_socket import TcpSocket
from tests.activities.probes.probed_servers import serving, silent, target


class Names:
    """A name server: names below `slow.example` are answered when the test ends."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()

    def look_up(self, host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        """Answer as getaddrinfo."""
        self.asked.append(host)
        if host.endswith("slow.example"):
            self.answers.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    """Look names up there."""
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made.look_up)
    yield made
    made.answers.set()


async def test_names_that_are_not_answered_take_no_thread_of_the_loop(names: Names) -> None:
    """Files are read there. And one name takes one thread, however many ask."""
    probes = [TcpSocket({"port": 1, "host": f"{number % 40}.slow.example"}, target(), 0.1) for number in range(120)]
    outcomes = await asyncio.gather(*(one.ask() for one in probes))
    assert {one.output.rpartition(": ")[2] for one in outcomes} == {"i/o timeout"}
    assert len(names.asked) == 40
    assert await asyncio.to_thread(lambda: "read") == "read"
    async with serving(silent) as port:
        (await dial("fast.example", port)).close()


async def test_a_name_that_cannot_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure, not a defect."""
    monkeypatch.undo()
    outcome = await TcpSocket({"port": 1, "host": f"{'a' * 64}.example"}, target(), 5).ask()
    assert not outcome.success
    assert "no such host" in outcome.output
