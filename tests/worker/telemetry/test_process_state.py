"""Does a process tell whether it works, and is whatever else answers on its socket taken for no answer?"""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from worker.daemon.service import Service
from worker.telemetry.local_socket import serving_texts, socket_path
from worker.telemetry.process_state import LONGEST_STATUS, PROCESS, ProcessState, process_state, state_of

WITHIN = timedelta(seconds=30)


async def test_a_process_tells_its_state(tmp_path: Path) -> None:
    """Ready once it has said so to systemd, with its status line."""
    service = Service(lambda: "", {})
    service.status("waiting for Temporal")
    async with serving_texts(
        socket_path(tmp_path, "worker"), {PROCESS: lambda: state_of(service, hosts=service.is_ready)}
    ):
        waits = await process_state(tmp_path, "worker", WITHIN)
        service.ready("working")
        works = await process_state(tmp_path, "worker", WITHIN)
    assert waits == ProcessState(os.getpid(), ready=False, hosts=False, status="waiting for Temporal")
    assert works == ProcessState(os.getpid(), ready=True, hosts=True, status="working")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="another-shape"),
        pytest.param(b'{"pid": "x", "ready": true, "hosts": true, "status": ""}', id="no-number"),
        pytest.param(b'{"pid": 1}', id="too-little"),
    ],
)
async def test_what_is_no_state_is_no_answer(tmp_path: Path, text: bytes) -> None:
    """A release before that tells nothing, for example."""
    async with serving_texts(socket_path(tmp_path, "worker"), {PROCESS: lambda: text}):
        assert await process_state(tmp_path, "worker", WITHIN) is None
    assert await process_state(tmp_path, "worker", WITHIN) is None


async def test_a_status_is_short(tmp_path: Path) -> None:
    """It may name what others have written."""
    told = b'{"pid": 1, "ready": true, "hosts": true, "status": "' + b"x" * 10_000 + b'"}'
    async with serving_texts(socket_path(tmp_path, "poller"), {PROCESS: lambda: told}):
        state = await process_state(tmp_path, "poller", WITHIN)
    assert state
    assert len(state.status) == LONGEST_STATUS
