"""Is a collection of the API followed completely and in order, whatever the server does to lists and watches?

A small server answers as each row says: paged lists, watches that break, 410, 429, 500, and lines that are cut in the
middle.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from activities.clients.api_server.reflector import Changed, Listed, Pace, Reflector
from tests.patience import PATIENCE

Answer = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
PATH = "/api/v1/pods"


def pod(name: str, version: int) -> dict[str, Any]:
    """Write an object."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def listed(*names: str, version: int, more: str = "") -> Answer:
    """Answer with a list, or one page of it."""

    async def answer(_: web.Request) -> web.StreamResponse:
        metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
        items = [pod(name, version) for name in names]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})

    return answer


def answered(body: Any) -> Answer:
    """Answer with any body."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body)

    return answer


def refused(code: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """Answer with a status."""

    async def answer(_: web.Request) -> web.StreamResponse:
        said = {"kind": "Status", "code": code, "reason": reason, "message": message or f"told {code}"}
        return web.json_response(said, status=code, headers=headers)

    return answer


def watched(*events: tuple[str, str, int], breaks: bool = False, tail: bytes = b"") -> Answer:
    """Answer with a watch with these events (type, name, version); then end it, or break it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for kind, name, version in events:
            await response.write(json.dumps({"type": kind, "object": pod(name, version)}).encode() + b"\n")
        await response.write(tail)
        if breaks:
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def error_event(code: int, reason: str) -> Answer:
    """Answer with a watch with an ERROR event."""
    said = {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason, "message": "told"}}
    return watched(tail=json.dumps(said).encode() + b"\n")


async def rests(_: web.Request) -> web.StreamResponse:
    """Send nothing more."""
    await asyncio.Event().wait()
    raise AssertionError


async def cut(request: web.Request) -> web.StreamResponse:
    """Answer with half a page."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"kind": "PodList", "items": [{"metadata"')
    assert request.transport is not None
    request.transport.abort()
    return response


class Server:
    """Answers one request after the other as told, and records the requests."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.done = asyncio.Event()
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer the next request."""
        self.asked.append(dict(request.query))
        if not self.answers:
            self.done.set()
            return await rests(request)
        return await self.answers.pop(0)(request)

    def versions(self) -> list[str]:
        """Describe the requests: `list`, `page`, `?` (a read of the server's version), or the version that a watch continued from."""
        said = (
            "page"
            if "continue" in one
            else "?"
            if "resourceVersionMatch" in one
            else one.get("resourceVersion", "list")
            for one in self.asked
        )
        return list(said)


@asynccontextmanager
async def following(
    *answers: Answer, cut: Callable[[dict[str, Any]], dict[str, Any]] = lambda found: found
) -> AsyncIterator[tuple[Server, AsyncIterator[Listed | Changed]]]:
    """Follow the server's collection."""
    server = Server(answers)
    app = web.Application()
    app.add_routes([web.get(PATH, server.handle)])
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.port = runner.addresses[0][1]
    try:
        async with ApiServer(Kubeconfig(f"http://127.0.0.1:{server.port}")) as api:
            reflector = Reflector(api, PATH, what="pods", field_selector="spec.nodeName=n", pace=Pace(first_pause=0.01))
            reflector.cut = cut
            changes = reflector.changes()
            try:
                yield server, changes
            finally:
                await changes.aclose()
    finally:
        await runner.cleanup()


def said(one: Listed | Changed) -> str:
    """Describe one result in a word."""
    match one:
        case Listed(items):
            return " ".join(item["metadata"]["name"] for item in items) or "-"
        case Changed(kind, found):
            return f"{kind[0]}:{found['metadata']['name']}"


@pytest.mark.parametrize(
    ("answers", "told", "asked"),
    [
        pytest.param([listed("a", "b", version=5)], ["a b"], ["list", "5"], id="a-list-then-a-watch-from-its-version"),
        pytest.param([listed(version=5)], ["-"], ["list", "5"], id="an-empty-list-is-a-list"),
        pytest.param(
            [listed("a", version=5, more="t"), listed("b", version=5)],
            ["a b"],
            ["list", "page", "5"],
            id="pages-are-one",
        ),
        pytest.param(
            [listed("a", version=5, more="t"), refused(410, "Expired"), listed("a", "b", version=9)],
            ["a b"],
            ["list", "page", "list", "9"],
            id="an-expired-page-begins-anew-as-a-whole",
        ),
        pytest.param(
            [listed("a", version=5, more="t"), refused(500), listed("a", "b", version=9)],
            ["a b"],
            ["list", "page", "list", "9"],
            id="half-a-list-is-never-given",
        ),
        pytest.param(
            [answered({}), listed("a", version=5)],
            ["a"],
            ["list", "list", "5"],
            id="an-answer-that-is-no-list-is-no-empty-one",
        ),
        pytest.param([cut, listed("a", version=5)], ["a"], ["list", "list", "5"], id="half-a-page-is-never-given"),
        pytest.param(
            [refused(500), refused(503), listed("a", version=5)], ["a"], ["list"] * 3 + ["5"], id="a-server-in-trouble"
        ),
        pytest.param(
            [refused(403, "Forbidden"), listed("a", version=5)],
            ["a"],
            ["list", "list", "5"],
            id="rights-that-come-later",
        ),
        pytest.param(
            [listed("a", version=5), watched(("ADDED", "b", 6), ("DELETED", "a", 7))],
            ["a", "A:b", "D:a"],
            ["list", "5", "7"],
            id="a-watch-that-ends-goes-on-from-its-last-event",
        ),
        pytest.param(
            [
                listed("a", version=5),
                watched(("MODIFIED", "a", 6), breaks=True),
                listed("a", version=6),
                watched(("DELETED", "a", 8)),
            ],
            ["a", "M:a", "D:a"],
            ["list", "5", "?", "6", "8"],
            id="a-watch-that-breaks-goes-on-too",
        ),
        pytest.param(
            [listed("a", version=5), watched(("BOOKMARK", "", 60)), refused(410, "Gone"), listed("b", version=70)],
            ["a", "b"],
            ["list", "5", "60", "list", "70"],
            id="a-bookmark-is-gone-on-from-and-told-nobody",
        ),
        pytest.param(
            [listed("a", version=5), error_event(410, "Expired"), listed("b", version=9)],
            ["a", "b"],
            ["list", "5", "list", "9"],
            id="an-error-event-of-410-lists-anew",
        ),
        pytest.param(
            [
                listed("a", version=5),
                error_event(500, "InternalError"),
                listed("a", version=5),
                watched(("ADDED", "b", 6)),
            ],
            ["a", "A:b"],
            ["list", "5", "?", "5", "6"],
            id="an-error-event-of-500-goes-on",
        ),
        pytest.param(
            [listed("a", version=5), watched(("ADDED", "b", 6), tail=b'{"type": "DEL'), watched(("ADDED", "c", 7))],
            ["a", "A:b", "A:c"],
            ["list", "5", "6", "7"],
            id="half-a-line-is-no-event",
        ),
        pytest.param(
            [
                listed("a", version=5),
                watched(tail=b"<html>\n"),
                listed("a", version=5),
                watched(("ADDED", "c", 7)),
            ],
            ["a", "A:c"],
            ["list", "5", "?", "5", "7"],
            id="a-line-that-is-no-json",
        ),
        pytest.param(
            [listed("a", version=5), watched(tail=b'{"type": "ADDED"}\n'), listed("a", "b", version=6)],
            ["a", "a b"],
            ["list", "5", "list", "6"],
            id="an-event-without-object-lists-anew",
        ),
        pytest.param(
            [listed("a", version=500), watched(("BOOKMARK", "", 40)), listed("b", version=41)],
            ["a", "b"],
            ["list", "500", "list", "41"],
            id="a-server-that-went-back-in-time-is-listed-anew",
        ),
        pytest.param(
            [
                listed("a", version=500),
                refused(504, "Timeout", "Too large resource version: 500"),
                listed("b", version=41),
            ],
            ["a", "b"],
            ["list", "500", "list", "41"],
            id="a-version-that-the-server-has-not-reached",
        ),
        pytest.param(
            [
                listed("a", version=500),
                watched(breaks=True),
                refused(504, "Timeout", "Too large resource version: 500, current: 41"),
                listed("b", version=41),
            ],
            ["a", "b"],
            ["list", "500", "?", "list", "41"],
            id="a-server-that-came-back-with-an-older-state",
        ),
    ],
)
async def test_what_is_told_and_asked(answers: list[Answer], told: list[str], asked: list[str]) -> None:
    """Each row has the server's answers, the results, and the requests."""
    async with asyncio.timeout(PATIENCE), following(*answers) as (server, changes):
        found = [said(await anext(changes)) for _ in told]
        after = asyncio.ensure_future(anext(changes))
        await server.done.wait()
        assert not after.done()
        after.cancel()
        await asyncio.gather(after, return_exceptions=True)
    assert found == told
    assert server.versions() == asked
    assert all(one["fieldSelector"] == "spec.nodeName=n" for one in server.asked)


def named(found: dict[str, Any]) -> dict[str, Any]:
    """Return the name."""
    return {"only": found["metadata"]["name"]}


async def test_only_what_is_wanted_of_an_object_is_given() -> None:
    """Applies to listed and to changed objects; the version to watch from is read before."""
    answers = [listed("a", version=5), watched(("MODIFIED", "b", 6)), watched(("DELETED", "c", 7))]

    async with asyncio.timeout(PATIENCE), following(*answers, cut=named) as (server, told):
        found = [await anext(told) for _ in answers]
    assert found == [Listed(({"only": "a"},)), Changed("MODIFIED", {"only": "b"}), Changed("DELETED", {"only": "c"})]
    assert server.versions()[:3] == ["list", "5", "6"]


async def test_retry_after_is_obeyed() -> None:
    """A server's Retry-After is obeyed."""
    clock = asyncio.get_running_loop().time
    async with (
        asyncio.timeout(PATIENCE),
        following(refused(429, **{"Retry-After": "1"}), listed("a", version=5)) as (_, told),
    ):
        began = clock()
        assert said(await anext(told)) == "a"
        assert clock() - began >= 1


async def test_a_server_for_which_everything_is_too_old_is_not_asked_without_end() -> None:
    """List and 410 alternate: each round waits longer than the one before."""
    rounds = 6
    answers = [one for _ in range(rounds) for one in (listed("a", version=5), refused(410, "Expired"))]
    answers.append(listed("a", version=5))
    clock = asyncio.get_running_loop().time
    async with asyncio.timeout(PATIENCE), following(*answers) as (_, told):
        began = clock()
        for _ in range(rounds + 1):
            await anext(told)
        assert clock() - began >= 0.01 * (2**rounds - 1)
