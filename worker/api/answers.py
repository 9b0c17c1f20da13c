"""Short answers in the kubelet's words, and how an endpoint gives one from anywhere: it raises `Refused`."""

import json
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

ABSENT: Final = "404: Page Not Found"
"""Answered for a path that is nobody's, and by a row's switch for one that shall look so."""


class Refused(Exception):
    """A request that is answered with a status and a sentence instead of what it asked for."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def text(sentence: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer plain text; a browser shall not take what a client sent us for a page."""
    return web.Response(status=status, text=sentence, headers={"X-Content-Type-Options": "nosniff"})


def json_answer(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer JSON as the API server writes it: without blanks."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(status=status, body=encoded, content_type="application/json")


def json_bytes(body: bytes) -> web.Response:
    """Answer JSON that is already written."""
    return web.Response(body=body, content_type="application/json")
