"""Can any peer hold up the worker by its socket, or learn something from it?"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
import structlog

from proto.temporal import names
from proto.temporal.operator import BackoffsSkipped, Explanation
from proto.temporal.signals import PodListed
from tests.patience import PATIENCE
from tests.worker.delivery.served_lead import ASKED, NOBODY, POD, Served, serving
from worker.delivery.client import SocketLead
from worker.delivery.frames import LARGEST, frame, read_frame
from worker.delivery.lead import Answer, LeadUnavailable, Message
from worker.delivery.server import Limits
from worker.payloads.receiving import ReceivingConverter
from worker.payloads.sending import SendingConverter

GOOD = {"do": "deliver", "workflowId": POD, "name": names.RUNTIME_CHANGED}
VALUE = {"metadata": {"encoding": "json/plain"}, "data": '{"source":"event"}'}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame({}), id="nothing-asked"),
        pytest.param(frame({"do": "shutdown"}), id="something-unknown"),
        pytest.param(frame({"do": ["deliver"]}), id="not-a-text"),
        pytest.param(struct.pack(">I", 3) + b"[1]", id="not-an-object"),
        pytest.param(struct.pack(">I", 4) + b"\xff\xfe\x00\x01", id="not-json"),
        pytest.param(struct.pack(">I", 100_000) + b"[" * 100_000, id="deep"),
        pytest.param(struct.pack(">I", 9_000) + b"1" * 9_000, id="a-long-number"),
        pytest.param(struct.pack(">I", LARGEST + 1), id="too-large"),
        pytest.param(struct.pack(">I", 0xFFFFFFFF) + b"x" * 100, id="as-large-as-can-be"),
        pytest.param(frame({**GOOD}), id="no-value"),
        pytest.param(frame({**GOOD, "value": VALUE, "workflowId": ""}), id="no-workflow"),
        pytest.param(frame({**GOOD, "value": VALUE, "workflowId": "x" * 1001}), id="a-long-id"),
        pytest.param(frame({**GOOD, "value": VALUE, "name": "Nonsense"}), id="an-unknown-signal"),
        pytest.param(frame({**GOOD, "value": {"metadata": 1, "data": 2}}), id="not-a-payload"),
        pytest.param(frame({**GOOD, "value": {**VALUE, "data": '{"source":{}}'}}), id="of-another-type"),
        pytest.param(frame({**GOOD, "value": {**VALUE, "metadata": {"encoding": "odd"}}}), id="an-unknown-encoding"),
        pytest.param(frame({**GOOD, "value": VALUE, "number": -1}), id="a-negative-number"),
        pytest.param(frame({**GOOD, "value": VALUE, "number": True}), id="not-a-number"),
        pytest.param(frame({**GOOD, "value": VALUE, "number": 1 << 63}), id="a-number-too-large"),
        pytest.param(frame({**GOOD, "value": VALUE, "dueFor": float("nan")}), id="not-a-duration"),
        pytest.param(frame({**GOOD, "value": VALUE, "dueFor": 10**400}), id="a-duration-above-any-float"),
        pytest.param(frame({**GOOD, "do": "start", "value": VALUE, "start": VALUE}), id="a-start-of-no-type"),
        pytest.param(
            frame({**GOOD, "do": "start", "value": VALUE, "start": {**VALUE, "metadata": {"shape": "PodStart"}}}),
            id="a-start-of-another-type",
        ),
    ],
)
async def test_garbage_is_refused(served: Served, data: bytes) -> None:
    """With what is wrong, and nothing of it reaches the lead."""
    assert "refused" in (await served.raw(data))["error"]
    assert (served.lead.told, served.lead.refused, served.lead.started) == ([], [], [])
    await served.answers()


async def test_the_largest_frame_passes(served: Served) -> None:
    """A pod as large as Temporal takes it, and one that is larger than any is not even sent."""
    listed = PodListed("file", pod={"x": "y" * (LARGEST - 100_000)})
    assert await served.client.deliver(Message(POD, names.POD_LISTED, listed)) is Answer.TAKEN
    with pytest.raises(LeadUnavailable, match="allowed"):
        await served.client.deliver(Message(POD, names.POD_LISTED, PodListed("file", pod={"x": "y" * LARGEST})))


async def test_nothing_of_a_message_is_logged(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither if it is refused nor if the lead fails."""
    secret = "s3cr3t"
    body = {**GOOD, "value": {**VALUE, "data": json.dumps({"source": [secret]})}, "token": secret}

    async def fail(_: Message) -> Answer:
        raise ValueError(secret)

    with structlog.testing.capture_logs() as logs:
        refused = await served.raw(frame(body))
        monkeypatch.setattr(served.lead, "deliver", fail)
        failed = await served.raw(frame({**GOOD, "value": VALUE}))
    assert "ValueError" in failed["error"]
    assert secret not in json.dumps([refused, failed, logs])
    await served.answers()


async def test_a_slow_writer_is_cut_off(tmp_path: Path) -> None:
    """Whether it sends nothing, a part of the length, or a part of the frame; others are answered meanwhile."""
    async with serving(tmp_path, Limits(patience=0.2)) as served, asyncio.timeout(PATIENCE):
        slow = [await asyncio.open_unix_connection(served.path) for _ in range(3)]
        for (_, writer), part in zip(slow, (b"", b"\0", struct.pack(">I", 1000) + b"{"), strict=True):
            writer.write(part)
        await served.answers()
        for reader, writer in slow:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert not served.server._open


async def test_a_peer_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    """Its answer is larger than what the kernel holds for it."""
    async with serving(tmp_path, Limits(patience=0.2)) as served, asyncio.timeout(PATIENCE):
        served.lead.answers[names.EXPLAIN] = Explanation("x" * 3_000_000, "Running")
        _, writer = await asyncio.open_unix_connection(served.path, limit=1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport that reads has it
        writer.write(frame({"do": "query", "workflowId": POD, "name": names.EXPLAIN}))
        await served.lead.until(1)
        while served.server._open:  # noqa: ASYNC110 - nothing says that it was cut off
            await asyncio.sleep(0.01)
        await served.answers()
        writer.transport.abort()


async def test_a_thousand_connections_keep_nobody_out(served: Served) -> None:
    """Those that ask nothing make way for those that do."""
    idle = []
    async with asyncio.timeout(PATIENCE):
        for _ in range(1000):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, str(served.path))
            idle.append(connection)
            if len(idle) % 100 == 0:
                await served.answers()
        assert len(served.server._open) <= Limits().connections
    for connection in idle:
        connection.close()


async def test_more_requests_than_connections_are_all_answered(served: Served) -> None:
    """The client takes turns."""
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(served.client.lead(POD) for _ in range(200)))
    assert set(answers) == {Answer.TAKEN}


async def test_only_root_is_answered() -> None:
    """The modes of folder and socket keep others out, and so does the server if these are changed."""
    with tempfile.TemporaryDirectory() as folder, structlog.testing.capture_logs() as logs:
        async with serving(Path(folder), Limits()) as served:
            inner = served.path.parent
            assert (served.path.stat().st_mode & 0o777, inner.stat().st_mode & 0o777) == (0o600, 0o700)
            assert await asyncio.to_thread(asked_by_nobody, served.path) == b"PermissionError"
            for opened in (Path(folder), inner, served.path):
                opened.chmod(0o777)
            for _ in range(2):
                assert await asyncio.to_thread(asked_by_nobody, served.path) == b"closed"
            assert [one["uid"] for one in logs] == [NOBODY], "logged once"
            assert not served.lead.told
            await served.answers()


def asked_by_nobody(path: Path) -> bytes:
    """Send a good message as another user, from a process of its own; returns what came of it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        outcome = b"failed"
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(PATIENCE)
                connection.connect(str(path))
                with contextlib.suppress(OSError):
                    connection.sendall(frame({**GOOD, "value": VALUE}))
                with contextlib.suppress(ConnectionResetError):
                    outcome = connection.recv(1) or outcome
                outcome = b"closed" if outcome == b"failed" else b"answered"
        except PermissionError:
            outcome = b"PermissionError"
        finally:
            os.write(write, outcome)
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        outcome = file.read()
    os.waitpid(child, 0)
    return outcome


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\0", id="half-a-length"),
        pytest.param(struct.pack(">I", LARGEST + 1), id="too-large"),
        pytest.param(struct.pack(">I", 2) + b"17", id="not-an-object"),
        pytest.param(frame({"answer": "maybe"}), id="an-unknown-answer"),
        pytest.param(frame({"answer": "taken", "value": 5}), id="not-a-value"),
        pytest.param(frame({"answer": "taken", "refusal": {}}), id="a-refusal-without-words"),
        pytest.param(frame({"error": "x" * 10_000}), id="a-long-error"),
    ],
)
async def test_a_bad_answer_is_none(tmp_path: Path, answer: bytes) -> None:
    """The client raises the one error that its callers expect."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(answer)
        writer.close()

    path = tmp_path / "worker.sock"
    server = await asyncio.start_unix_server(respond, path)
    client = SocketLead(path, ReceivingConverter())
    with pytest.raises(LeadUnavailable) as raised:
        await client.update(ASKED, BackoffsSkipped)
    assert len(str(raised.value)) < 1000
    server.close()


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"version": 5}, id="no-version"),
        pytest.param({"version": "1", "pods": [1]}, id="no-pods"),
        pytest.param({"version": "1", "pods": {"a": 1}}, id="no-lead"),
        pytest.param({"version": "1", "pods": {"a": [True, "x"]}}, id="no-epoch"),
    ],
)
async def test_bad_leads_are_none(tmp_path: Path, found: dict[str, Any]) -> None:
    """As above."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(frame(found))
        writer.close()

    path = tmp_path / "worker.sock"
    server = await asyncio.start_unix_server(respond, path)
    with pytest.raises(LeadUnavailable):
        await SocketLead(path, SendingConverter()).leads("")
    server.close()
