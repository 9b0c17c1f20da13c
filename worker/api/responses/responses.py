"""Short answers in the kubelet's words, and how an endpoint gives one from anywhere: it raises `Refused`."""

import json
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

PAGE_NOT_FOUND: Final = "404: Page Not Found"
"""Answered for a path that is nobody's, and by a row's switch for one that shall look so."""


class Refused(Exception):
    """A request that is answered with a status and a sentence instead of what it asked for."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def answer(self) -> web.Response:
        """Say it: the kubelet's refusals are text."""
        return text_response(self.sentence, self.status)


class Unavailable(Refused):
    """A request that can't be answered now, for something else doesn't answer: 503, in the form in which Kubernetes' clients read why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, f"{sentence}; retry")

    def answer(self) -> web.Response:
        """Say it, and after which time it is worth asking again."""
        answer = status_response(self.status, "ServiceUnavailable", self.sentence)
        answer.headers["Retry-After"] = "1"
        return answer


def text_response(sentence: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer plain text; a browser shall not take what a client sent us for a page."""
    return web.Response(status=status, text=sentence, headers={"X-Content-Type-Options": "nosniff"})


def json_response(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Answer JSON as the API server writes it: without blanks."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(status=status, body=encoded, content_type="application/json")


def status_response(status: HTTPStatus, reason: str, message: str) -> web.Response:
    """Answer a Status, as the API server tells what went wrong."""
    failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json_response({**failure, "message": message, "reason": reason, "code": status.value}, status)


def raw_json_response(body: bytes) -> web.Response:
    """Answer JSON that is already written."""
    return web.Response(body=body, content_type="application/json")
