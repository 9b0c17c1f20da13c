"""Does the node process get the texts of worker and poller, complete or not at all, and in time?"""

import asyncio
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from worker.telemetry.local_socket import METRICS, PROBES, TextUnavailable, fetch_text, serving_texts, socket_path

SOON = timedelta(seconds=20)


async def test_texts_are_told(tmp_path: Path) -> None:
    """By name; also one larger than any buffer."""
    path = socket_path(tmp_path, "worker")
    async with serving_texts(path, {METRICS: lambda: b"a 1\n" * 500_000, PROBES: lambda: b""}):
        assert await fetch_text(path, METRICS, SOON) == "a 1\n" * 500_000
        assert await fetch_text(path, PROBES, SOON) == ""
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_a_long_root_dir_is_no_hindrance(tmp_path: Path) -> None:
    """A socket's path is limited to 107 characters."""
    path = socket_path(tmp_path / ("d" * 200), "poller")
    async with serving_texts(path, {METRICS: lambda: b"x\n"}):
        assert await fetch_text(path, METRICS, SOON) == "x\n"


async def test_an_earlier_processs_socket_gives_way(tmp_path: Path) -> None:
    """A killed process left it."""
    path = socket_path(tmp_path, "worker")
    first = serving_texts(path, {METRICS: lambda: b"old"})
    await first.__aenter__()
    async with serving_texts(path, {METRICS: lambda: b"new"}):
        assert await fetch_text(path, METRICS, SOON) == "new"


@pytest.mark.parametrize("name", [pytest.param("other", id="unknown"), pytest.param("x" * 1000, id="long")])
async def test_what_nobody_tells_is_not_told(name: str, tmp_path: Path) -> None:
    """The connection is closed."""
    path = socket_path(tmp_path, "worker")
    async with serving_texts(path, {METRICS: lambda: b"x"}):
        with pytest.raises(TextUnavailable):
            await fetch_text(path, name, SOON)


async def test_a_process_that_is_away_is_not_told(tmp_path: Path) -> None:
    """Neither without a socket nor with one that nobody serves."""
    path = socket_path(tmp_path, "worker")
    with pytest.raises(TextUnavailable):
        await fetch_text(path, METRICS, SOON)


async def test_a_process_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """The time is limited."""
    path = tmp_path / "worker.sock"
    server = await asyncio.start_unix_server(lambda _reader, _writer: None, path)
    with pytest.raises(TextUnavailable, match="no answer"):
        await fetch_text(path, METRICS, timedelta(seconds=0.1))
    server.close()


async def test_a_torn_text_is_not_told(tmp_path: Path) -> None:
    """Half of the series would look like pods that are gone."""

    async def tear(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"a 1\na")
        writer.close()

    path = tmp_path / "worker.sock"
    server = await asyncio.start_unix_server(tear, path)
    with pytest.raises(TextUnavailable, match="torn"):
        await fetch_text(path, METRICS, SOON)
    server.close()
