"""Is a shutdown heard of and delayed, on a real bus, and only if root tells of it?"""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from jeepney import DBusAddress, new_signal
from jeepney.bus_messages import message_bus
from structlog.testing import capture_logs

from activities.clients.systemd.bus import Bus
from activities.clients.systemd.logind import is_roots_alone
from tests.worker.host.shutdown.small_logind import MANAGER, SmallLogind, own_logind
from worker.host.shutdown.drop_in import NAME
from worker.host.shutdown.watch import ShutdownWatch

NOBODY = 65534
WITHIN = 30.0
STRANGER = """
import os, sys
from jeepney import DBusAddress, new_signal
from jeepney.io.blocking import open_dbus_connection
os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
connection = open_dbus_connection("unix:path={path}")
address = DBusAddress("/org/freedesktop/login1", "org.freedesktop.login1", "org.freedesktop.login1.Manager")
connection.send(new_signal(address, "PrepareForShutdown", "b", (True,)))
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def logind() -> Iterator[SmallLogind]:
    """Return a logind on a bus of its own."""
    with own_logind(timedelta(seconds=5)) as found:
        yield found


class Listener:
    """Notes what the watch tells."""

    def __init__(self) -> None:
        self.heard: list[bool] = []

    async def told(self, begins: bool) -> None:
        """Take it."""
        self.heard.append(begins)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that another process does; raises TimeoutError."""
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 - the bus and the small logind are no part of this loop
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def watching(logind: SmallLogind, seconds: float = 5) -> AsyncIterator[tuple[ShutdownWatch, list[bool]]]:
    """Watch while the block runs."""
    listener = Listener()
    watch = ShutdownWatch(
        timedelta(seconds=seconds), listener.told, bus=logind.bus.path, drop_ins=logind.bus.folder / "conf.d"
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch, listener.heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_shutdown_is_heard_of_and_waits(logind: SmallLogind) -> None:
    """A lock is held from the start until it is released, with the kubelet's words."""

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            assert (
                "Inhibit",
                ("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay"),
            ) in logind.asked
            logind.tell(True)
            await until(lambda: heard)
            assert (heard, logind.held()) == ([True], 1)
            watch.release(watch.lock)
            await until(lambda: not logind.held())

    asyncio.run(run())


def test_a_cancelled_shutdown_locks_again(logind: SmallLogind) -> None:
    """With another lock; the former one is given up, if it was not yet."""

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            logind.tell(True)
            logind.tell(False)
            await until(lambda: heard == [True, False])
            assert (len(logind.locks), logind.held()) == (2, 1)
            watch.release()
            logind.tell(True)
            logind.tell(False)
            await until(lambda: len(heard) == 4)
            assert (len(logind.locks), logind.held()) == (3, 1)
        await until(lambda: not logind.held())

    asyncio.run(run())


def test_the_lock_is_inherited_by_nobody(logind: SmallLogind) -> None:
    """A container's process would hold up the machine."""

    async def run() -> None:
        async with watching(logind) as (watch, _):
            await until(lambda: watch.lock is not None)
            assert watch.lock is not None
            assert not os.get_inheritable(watch.lock)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("allowed", "after", "content", "reloads"),
    [
        pytest.param(30, None, None, 0, id="enough-is-left-alone"),
        pytest.param(5, 30, "InhibitDelayMaxSec=30", 1, id="less-is-raised"),
    ],
)
def test_the_delay(logind: SmallLogind, allowed: int, after: int | None, content: str | None, reloads: int) -> None:
    """A file below logind.conf.d, and a signal to logind."""
    logind.delay_usec = allowed * 1_000_000
    logind.after_reload_usec = after and after * 1_000_000
    file = logind.bus.folder / "conf.d" / NAME

    async def run() -> None:
        async with watching(logind, 30) as (watch, _):
            await until(lambda: watch.lock is not None)

    asyncio.run(run())
    assert [body for member, body in logind.asked if member == "KillUnit"] == [
        ("systemd-logind.service", "all", 1)
    ] * reloads
    assert (file.read_text().splitlines()[-1] if file.exists() else None) == content


def test_a_delay_that_stays_too_short_is_said(logind: SmallLogind) -> None:
    """Once, with the remedy; and it is tried again."""
    with capture_logs() as logs:

        async def run() -> None:
            async with watching(logind, 30) as (watch, _):
                await until(lambda: any("allows a delay of 5 s" in str(one.get("err")) for one in logs))
                logind.delay_usec = 30_000_000
                await until(lambda: watch.lock is not None)

        asyncio.run(run())
    said = [one for one in logs if "would not wait for its pods" in one["event"]]
    assert len(said) == 1
    assert "another file that sets it" in said[0]["err"]


def test_a_lost_bus_is_connected_anew(logind: SmallLogind) -> None:
    """And the shutdown after that is heard of."""

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            logind.stop()
            logind.bus.stop()
            logind.bus.start()
            logind.start()
            await until(lambda: len(logind.locks) == 2 and logind.held() == 1)
            logind.tell(True)
            await until(lambda: heard == [True])

    asyncio.run(run())


def test_a_shutdown_under_way_is_not_missed(logind: SmallLogind) -> None:
    """A worker that starts meanwhile asks logind, which gives no lock any more."""
    logind.preparing = True

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: heard == [True])
            assert watch.lock is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("interface", "path", "signature", "body"),
    [
        pytest.param(MANAGER.interface, MANAGER.object_path, "s", ("true",), id="a-text"),
        pytest.param(MANAGER.interface, MANAGER.object_path, "", (), id="nothing"),
        pytest.param(MANAGER.interface, MANAGER.object_path, "bb", (True, True), id="two"),
        pytest.param(MANAGER.interface, MANAGER.object_path, "v", (("b", True),), id="a-variant"),
        pytest.param(MANAGER.interface, MANAGER.object_path, "a(b)", ([(True,)],), id="an-array"),
        pytest.param(MANAGER.interface, "/other", "b", (True,), id="of-another-object"),
        pytest.param("org.example.Manager", MANAGER.object_path, "b", (True,), id="of-another-interface"),
    ],
)
def test_a_malformed_signal(
    logind: SmallLogind, interface: str, path: str, signature: str, body: tuple[object, ...]
) -> None:
    """It is dropped, and the next one is heard; sent to us alone, so that no rule of the bus holds it back."""

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            with logind.bus.connect() as sender:
                address = DBusAddress(path, MANAGER.bus_name, interface)
                sender.send(new_signal(address, "PrepareForShutdown", signature or None, body))
                sender.send(new_signal(MANAGER, "PrepareForShutdown", "b", (False,)))
                await until(lambda: heard)
            assert heard == [False]

    asyncio.run(run())


def test_a_sender_of_another_user_is_not_heard(logind: SmallLogind) -> None:
    """The bus knows whose a connection is; that of root is heard, also if it is not logind's."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    code = STRANGER.format(uid=NOBODY, path=logind.bus.path)

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            with subprocess.Popen(  # noqa: ASYNC220 - it only starts
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as stranger:
                assert stranger.stdout is not None
                assert await asyncio.to_thread(stranger.stdout.readline) == "sent\n"
                await until(lambda: any(one.get("uid") == NOBODY for one in logs))
                with logind.bus.connect() as sender:
                    sender.send(new_signal(MANAGER, "PrepareForShutdown", "b", (False,)))
                    await until(lambda: heard)
                assert heard == [False]
                stranger.communicate()

    with capture_logs() as logs:
        asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "heard_of"),
    [
        pytest.param(0o666, [False], id="anybody-may-have-been-it"),
        pytest.param(0o600, [True, False], id="nobody-but-root-can-have-been-it"),
    ],
)
def test_a_sender_that_is_gone(
    logind: SmallLogind, monkeypatch: pytest.MonkeyPatch, mode: int, heard_of: list[bool]
) -> None:
    """The bus does not know any more whose it was, as with the official node tests."""
    if os.geteuid() != 0:
        pytest.skip("the bus is this user's, and not root's")
    is_gone, uid_of = threading.Event(), Bus.uid_of

    def late(bus: Bus, sender: str) -> int | None:
        assert is_gone.wait(WITHIN)
        return uid_of(bus, sender)

    monkeypatch.setattr(Bus, "uid_of", late)
    logind.bus.path.chmod(mode)

    async def run() -> None:
        async with watching(logind) as (watch, heard):
            await until(lambda: watch.lock is not None)
            with logind.bus.connect() as sender:
                sender.send(new_signal(MANAGER, "PrepareForShutdown", "b", (True,)))
                name = sender.unique_name
            with logind.bus.connect() as other:
                await until(lambda: not other.send_and_get_reply(message_bus.NameHasOwner(name)).body[0])
                is_gone.set()
                other.send(new_signal(MANAGER, "PrepareForShutdown", "b", (False,)))
                await until(lambda: False in heard)
            assert heard == heard_of

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "owner", "alone"),
    [
        pytest.param(0o600, 0, True, id="root"),
        pytest.param(0o755, 0, True, id="to-read-is-not-enough-to-connect"),
        pytest.param(0o620, 0, False, id="a-group"),
        pytest.param(0o602, 0, False, id="all"),
        pytest.param(0o600, NOBODY, False, id="another-owner"),
    ],
)
def test_who_may_connect(tmp_path: Path, mode: int, owner: int, alone: bool) -> None:
    """By the rights of the bus's socket."""
    if os.geteuid() != 0:
        pytest.skip("only root may give a file to another user")
    path = tmp_path / "bus"
    path.touch()
    path.chmod(mode)
    os.chown(path, owner, owner)
    assert is_roots_alone(path) is alone


def test_a_socket_that_is_gone(tmp_path: Path) -> None:
    """Nothing is known of who may have connected."""
    assert not is_roots_alone(tmp_path / "bus")
