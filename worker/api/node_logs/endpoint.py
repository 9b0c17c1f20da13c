"""/logs: the files below /var/log and, with enableSystemLogQuery, the logs of services.

Like the kubelet's file server (pkg/kubelet ServeLogs), except that no link leads out of the folder and no file is served as
HTML. A query for a service reads the journal, or the file named after the service.
"""

import asyncio
import contextlib
import html
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from worker.api.node_logs import files as log_files
from worker.api.node_logs import journal
from worker.api.node_logs.files import NotServed, OpenedEntry, list_folder, opened_below
from worker.api.node_logs.query import LogOptions, LogQuery, journal_arguments, parse_log_query
from worker.api.responses.responses import Refused
from worker.node.process.dependencies import NodeDependencies

_PAGE: Final = '<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n{}</pre>\n'
_SNIFFED: Final = 512
_CHUNK: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b"
ANSWERED_WITHIN: Final = journal.WITHIN + timedelta(seconds=10)
"""Limit for a whole query: slots are few, and a client that does not read must not keep one."""
_NOT_FOUND: Final = "404 page not found\n"

_queries = asyncio.Semaphore(journal.AT_ONCE)


class _SentOnce(web.FileResponse):
    """A file sent while its descriptor is open; aiohttp prepares a returned response again, which would open it a second time."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send headers and content on the first call only."""
        return None if self.prepared else await super().prepare(request)


async def folder(request: web.Request, _: NodeDependencies) -> web.StreamResponse:
    """Redirect to the path with a slash, where relative links work."""
    query = f"?{request.query_string}" if request.query_string else ""
    return web.Response(status=HTTPStatus.MOVED_PERMANENTLY, headers={"Location": f"logs/{query}"})


async def handler(request: web.Request, node: NodeDependencies) -> web.StreamResponse:
    """Answer a file, a folder's listing or a query."""
    path = request.match_info["path"]
    query = parse_log_query(request.query) if node.cluster.serving.log_query else None
    if query is None:
        return await _file(request, path)
    if path:
        raise Refused(HTTPStatus.NOT_ACCEPTABLE, "path not allowed in query mode\n")
    if query.file:
        return await _file(request, query.file)
    if _queries.locked():
        raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many log queries at a time; try again\n")
    async with (
        _queries,
        asyncio.timeout(ANSWERED_WITHIN.total_seconds()),
    ):  # the middleware aborts the connection if the answer is incomplete by then
        return await _services(request, query)


async def _file(request: web.Request, path: str) -> web.StreamResponse:
    async with _held(path) as found:
        if found.folder:
            if path and not path.endswith("/"):
                return web.Response(
                    status=HTTPStatus.MOVED_PERMANENTLY, headers={"Location": f"{quote(Path(path).name)}/"}
                )
            return _listed(await _names(found))
        if path.endswith("/"):
            return web.Response(
                status=HTTPStatus.MOVED_PERMANENTLY, headers={"Location": f"../{quote(Path(path).name)}"}
            )
        response = _SentOnce(found.reopened, headers={"X-Content-Type-Options": "nosniff"})
        response.content_type, response.charset = await asyncio.to_thread(_kind, found)
        response.force_close()  # a file truncated meanwhile ends before its announced length
        await response.prepare(request)
        await response.write_eof()
        return response


@contextlib.asynccontextmanager
async def _held(path: str) -> AsyncIterator[OpenedEntry]:
    """Open a file or folder; raises Refused in the words of Go's file server."""
    opening = opened_below(log_files.NODE_LOGS, path)
    try:
        found = await asyncio.to_thread(opening.__enter__)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(HTTPStatus.NOT_FOUND, _NOT_FOUND) from None
    except (OSError, ValueError, NotServed):
        raise Refused(HTTPStatus.FORBIDDEN, "403 Forbidden\n") from None
    try:
        yield found
    finally:
        opening.__exit__(None, None, None)


async def _names(folder: OpenedEntry) -> list[str]:
    try:
        return await asyncio.to_thread(list_folder, folder)
    except OSError as error:
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "Error reading directory\n") from error


def _listed(entries: list[str]) -> web.Response:
    lines = "".join(f'<a href="{html.escape(_relative(one))}">{html.escape(_shown(one))}</a>\n' for one in entries)
    return web.Response(
        text=_PAGE.format(lines),
        content_type="text/html",
        headers={"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"},
    )


def _relative(name: str) -> str:
    """Quote a name of any bytes for a relative link."""
    return quote(os.fsencode(name))


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _kind(file: OpenedEntry) -> tuple[str, str | None]:
    """Return the content type: text, gzip or binary; never HTML."""
    with file.reopened.open("rb") as opened:
        begin = opened.read(_SNIFFED)
    if begin.startswith(_GZIP):
        return "application/x-gzip", None
    return ("application/octet-stream", None) if b"\0" in begin else ("text/plain", "utf-8")


async def _services(request: web.Request, query: LogQuery) -> web.StreamResponse:
    """Answer the logs of services: from the journal if it has the unit, else from files of that name."""
    units = await journal.known_units()
    journaled = [one for one in query.services if f"{one}.service" in units]
    in_files = [one for one in query.services if one not in journaled]
    response = web.StreamResponse(headers={"X-Content-Type-Options": "nosniff"})
    response.content_type, response.charset = "text/plain", "UTF-8"
    if request.headers.get("Accept-Encoding") == "gzip":
        response.enable_compression(web.ContentCoding.gzip)
    await response.prepare(request)
    if journaled:
        await _from_journal(response, journal_arguments(journaled, query.options))
    if in_files and query.options != LogOptions():
        services = " ".join(in_files)
        line = f"\noptions present and query resolved to log files for [{services}]\ntry without specifying options\n"
        await response.write(line.encode())
    elif in_files:
        for service in in_files:
            await _from_files(response, service)
    await response.write_eof()
    return response


async def _from_journal(response: web.StreamResponse, arguments: list[str]) -> None:
    try:
        async with (
            asyncio.timeout(journal.WITHIN.total_seconds()),
            contextlib.aclosing(journal.output(arguments)) as chunks,
        ):
            async for chunk in chunks:
                await response.write(chunk)
    except journal.JournalAway:
        await response.write(b"\nerror: journal output not available\n")
    except TimeoutError:
        await response.write(b"\ncontext error: context deadline exceeded\n")


async def _from_files(response: web.StreamResponse, service: str) -> None:
    """Write the first of `<service>`, `<service>.log` and `<service>/<service>.log` that is a file."""
    for name in (service, f"{service}.log", f"{service}/{service}.log"):
        try:
            async with _held(name) as found:
                if found.folder:
                    continue
                with await asyncio.to_thread(found.reopened.open, "rb") as opened:
                    while chunk := await asyncio.to_thread(opened.read, _CHUNK):
                        await response.write(chunk)
                return
        except Refused as refused:
            if refused.status is not HTTPStatus.NOT_FOUND:
                await response.write(f"\nerror getting log for {service}: {refused.sentence.strip()}\n".encode())
                return
    await response.write(f"\nlog not found for {service}\n".encode())
