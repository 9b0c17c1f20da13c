"""Does the client do what systemd needs, twice, late and halfway, and does a bad peer cost only its time?"""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from jeepney import Message

from activities.clients.systemd.bus import Sockets, SystemdRefused, SystemdUnavailable
from activities.clients.systemd.units import SystemdUnits
from tests.activities.clients.systemd.fake_systemd import (
    JOB,
    Answer,
    FakeSystemd,
    answer,
    error,
    raw_header,
    refusal,
    removed,
)

UNIT = "kubepods-podx.slice"
SHORT = 0.5
"""Seconds of an operation that is to fail."""


@pytest.fixture(params=["bus", "private"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeSystemd]:
    """Return a systemd behind a bus, and one on its own socket."""
    with FakeSystemd(tmp_path / request.param).listening() as found:
        yield found


def units(systemd: FakeSystemd, seconds: float = 20) -> SystemdUnits:
    """Return the client of one."""
    folder = systemd.path.parent
    return SystemdUnits(Sockets(folder / "bus", folder / "private"), seconds)


def members(systemd: FakeSystemd) -> list[str]:
    """Return what was called."""
    return [name for name, _ in systemd.calls]


def test_a_unit_is_made_and_awaited(systemd: FakeSystemd) -> None:
    """With its properties, and the job's end is awaited."""
    units(systemd).start(UNIT, [("Wants", ("as", ["kubepods.slice"])), ("CPUAccounting", ("b", True))])
    properties = [("Wants", ("as", ["kubepods.slice"])), ("CPUAccounting", ("b", True))]
    assert systemd.calls == [("StartTransientUnit", (UNIT, "replace", properties, []))]


def test_one_that_exists_is_started(systemd: FakeSystemd) -> None:
    """It may have been stopped, and starting a running one is nothing."""
    systemd.units.add(UNIT)
    units(systemd).start(UNIT, [])
    assert members(systemd) == ["StartTransientUnit", "StartUnit"]


def test_limits(systemd: FakeSystemd) -> None:
    """They hold until the next boot."""
    units(systemd).limit(UNIT, [("CPUWeight", ("t", 20))])
    assert systemd.calls == [("SetUnitProperties", (UNIT, True, [("CPUWeight", ("t", 20))]))]


@pytest.mark.parametrize("there", [True, False], ids=["there", "gone"])
def test_stop(systemd: FakeSystemd, there: bool) -> None:
    """A missing one is stopped already."""
    systemd.units.update([UNIT] if there else [])
    units(systemd).stop(UNIT)
    assert members(systemd) == ["ResetFailedUnit", "StopUnit"]
    assert UNIT not in systemd.units


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("252.39-1~deb12u2", 252, id="debian"),
        pytest.param("v245.4-1.fc32", 245, id="fedora"),
        pytest.param("257", 257, id="plain"),
    ],
)
def test_version(systemd: FakeSystemd, text: str, version: int) -> None:
    """It is read once."""
    systemd.answers["Get"] = lambda _, call: [answer(call, "v", (("s", text),))]
    found = units(systemd)
    assert (found.version(), found.version()) == (version, version)
    assert members(systemd) == ["Get"]


def test_a_failed_job(systemd: FakeSystemd) -> None:
    """It is said, and the failed unit does not stay."""
    systemd.answers["StartTransientUnit"] = lambda _, call: [answer(call, "o", (JOB,)), removed(UNIT, "failed")]
    with pytest.raises(SystemdRefused, match=f"start {UNIT}: the job ended with 'failed'; see systemctl status"):
        units(systemd).start(UNIT, [])
    assert members(systemd) == ["StartTransientUnit", "ResetFailedUnit"]


def test_systemds_refusal(systemd: FakeSystemd) -> None:
    """Its words reach the pod's event."""
    systemd.answers["SetUnitProperties"] = lambda _, call: [refusal(call, "Bad", "Cannot set property CPUWeight")]
    with pytest.raises(SystemdRefused, match="SetUnitProperties: Cannot set property CPUWeight"):
        units(systemd).limit(UNIT, [("CPUWeight", ("t", 0))])


def test_another_jobs_end_is_not_ours(systemd: FakeSystemd) -> None:
    """Nor is the right job's end, told by somebody else; ours may come before the answer."""

    def started(_: FakeSystemd, call: Message) -> Sequence[Message]:
        other = JOB.replace("7", "8")
        return [
            removed(UNIT, "failed", job=other),
            removed(UNIT, "canceled", sender=":1.66"),
            answer(call, "o", (JOB,)),
            removed("other.slice", "failed", job=other),
            removed(UNIT, "done"),
        ]

    systemd.answers["StartTransientUnit"] = started
    units(systemd).start(UNIT, [])


def test_a_connection_that_breaks_is_made_anew(systemd: FakeSystemd) -> None:
    """As at a daemon-reexec: the operation runs again, and finds what the first one did."""

    def broken(server: FakeSystemd, _: Message) -> Sequence[Message]:
        server.units.add(UNIT)
        del server.answers["StartTransientUnit"]
        raise OSError("the connection is closed")

    systemd.answers["StartTransientUnit"] = broken
    units(systemd).start(UNIT, [])
    assert members(systemd) == ["StartTransientUnit", "StartTransientUnit", "StartUnit"]
    assert systemd.connections == 2


@pytest.mark.parametrize("name", ["ServiceUnknown", "NameHasNoOwner", "NoReply"])
def test_a_bus_without_systemd_is_asked_again(systemd: FakeSystemd, name: str) -> None:
    """As at a daemon-reexec, when systemd leaves the bus for a moment."""

    def away(server: FakeSystemd, call: Message) -> Sequence[Message]:
        del server.answers["StopUnit"]
        server.units.add(UNIT)
        return [error(call, f"org.freedesktop.DBus.Error.{name}", "not there")]

    systemd.answers["StopUnit"] = away
    units(systemd).stop(UNIT)
    assert UNIT not in systemd.units


def test_a_systemd_that_has_answered_is_awaited(tmp_path: Path) -> None:
    """Its own socket is made anew while it restarts itself; at a first start nothing is waited for."""
    found = SystemdUnits(Sockets(tmp_path / "bus", tmp_path / "private"), 600)
    before = time.monotonic()
    with pytest.raises(SystemdUnavailable):
        found.version()
    assert time.monotonic() - before < 30, "it would have been ten minutes"
    systemd = FakeSystemd(tmp_path / "private")
    with systemd.listening():
        found.version()
    systemd.path.unlink()
    again = threading.Timer(0.1, systemd.path.touch)  # nobody listens there yet
    again.start()
    with pytest.raises(SystemdUnavailable, match="refused"):
        found.limit(UNIT, [])
    again.join()


def silent(_: FakeSystemd, __: Message) -> Sequence[Message]:
    """Say nothing."""
    return []


def endless(_: FakeSystemd, __: Message) -> Sequence[bytes]:
    """Send signals for as long as anybody reads."""

    class Endless(Sequence[bytes]):
        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, _: object) -> bytes:  # type: ignore[override]  # a test's sequence
            return bytes(removed("x.slice").serialise(serial=1)) * 100

    return Endless()


def of(*sent: bytes) -> Answer:
    """Send these bytes."""
    return lambda _, __: sent


@pytest.mark.parametrize(
    ("harm", "seconds", "why"),
    [
        pytest.param(silent, SHORT, "timed out|no answer in time", id="it-says-nothing"),
        pytest.param(of(b"l\x02\x00\x01" + b"\xff" * 12), 20, "a message of", id="a-message-of-gigabytes"),
        pytest.param(of(b"x" * 16), 20, "b'x'", id="no-d-bus"),
        pytest.param(of(raw_header(b"a()", b"\x08\0\0\0" + b"\0" * 12)), 20, "empty struct", id="an-array-without-end"),
        pytest.param(of(raw_header(b"v", b"\x01v\0" * 20_000)), 20, "recursion", id="values-in-values"),
        pytest.param(of(raw_header(b"v" * 200, b"\0" * 8)), 20, "empty list", id="a-signature-of-many"),
        pytest.param(of(raw_header(b"o", b"\xff\xff\0\0")), 20, "AssertionError", id="a-string-beyond-the-end"),
        pytest.param(endless, SHORT, "more than|in time|timed out", id="signals-without-end"),
    ],
)
def test_a_bad_peer(systemd: FakeSystemd, harm: Answer, seconds: float, why: str) -> None:
    """Time, bytes and nesting are limited; what is said names the socket, and which of these it was."""
    systemd.answers["Get"] = systemd.answers["SetUnitProperties"] = harm
    with pytest.raises(SystemdUnavailable, match=f"systemd at {systemd.path}: .*({why})"):
        units(systemd, seconds).limit(UNIT, [])


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        pytest.param(b"REJECTED EXTERNAL\r\n", "Authentication failed", id="not-root"),
        pytest.param(b"x" * 20_000, "Too much data", id="a-line-without-end"),
    ],
)
def test_no_access(systemd: FakeSystemd, proof: bytes, why: str) -> None:
    """The answer to the proof of identity."""
    systemd.proof = proof
    with pytest.raises(SystemdUnavailable, match=why):
        units(systemd).version()


def test_signals_may_come_with_the_proofs_answer(systemd: FakeSystemd) -> None:
    """Systemd's own socket sends those of other units from the first moment."""
    systemd.proof += bytes(removed("other.service").serialise(serial=1))
    assert units(systemd).version() == 252


def test_no_systemd(tmp_path: Path) -> None:
    """Without any socket it says where it looked."""
    with pytest.raises(SystemdUnavailable, match=f"{tmp_path}/private: .*No such file"):
        SystemdUnits(Sockets(tmp_path / "bus", tmp_path / "private"), SHORT).version()


def test_a_dead_bus(tmp_path: Path) -> None:
    """Systemd's own socket is there before the bus, and when the bus has died."""
    (tmp_path / "bus").touch()
    with FakeSystemd(tmp_path / "private").listening() as systemd:
        assert units(systemd).version() == 252
