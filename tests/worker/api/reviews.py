"""A stand-in for the API server's TokenReview and SubjectAccessReview, over real HTTP."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Reviews:
    """The reviews' answers, and how often each was requested."""

    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By token."""
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    """User, verb, subresource."""
    status: int = 0
    """Answer with this status instead: the API server has a problem."""
    held: asyncio.Event | None = None
    """Wait for this before answering."""
    held_kinds: set[str] = field(default_factory=lambda: {"TokenReview", "SubjectAccessReview"})
    asked: Counter[str] = field(default_factory=Counter)
    specs: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    """The credentials of those who requested them."""
    url: str = ""

    def allow(self, user: str, verb: str, *subresources: str) -> None:
        """Allow a user a verb on subresources of the node."""
        self.allowed |= {(user, verb, one) for one in subresources}

    async def _review(self, request: web.Request) -> web.Response:
        body = await request.json()
        kind = body["kind"]
        self.asked[kind] += 1
        self.specs.append(body["spec"])
        self.tokens.add(request.headers.get("Authorization", ""))
        if self.held is not None and kind in self.held_kinds:
            await self.held.wait()
        if self.status:
            return web.json_response({"kind": "Status", "message": "trouble"}, status=self.status)
        if kind == "TokenReview":
            user = self.users.get(body["spec"]["token"])
            return web.json_response(
                {"status": {"authenticated": user is not None, **({"user": user} if user else {})}}
            )
        wants = body["spec"]["resourceAttributes"]
        assert (wants["resource"], wants["name"], wants["version"]) == ("nodes", "n1", "v1")
        key = (body["spec"].get("user", ""), wants.get("verb", ""), wants["subresource"])
        return web.json_response({"status": {"allowed": key in self.allowed}})

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Reviews"]:
        """Serve on a free port of loopback while the block runs."""
        app = web.Application()
        app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._review)
        app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", self._review)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()
