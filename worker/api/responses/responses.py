"""Short responses in the kubelet's form, and `Refused`, which a handler raises to send one from anywhere."""

import json
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

PAGE_NOT_FOUND: Final = "404: Page Not Found"
"""For a path without a row, and for a disabled row that must look like one."""


class Refused(Exception):
    """The request is answered with a status and a message instead of its result."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence

    def answer(self) -> web.Response:
        """Return the response; the kubelet's refusals are plain text."""
        return text_response(self.sentence, self.status)


class Unavailable(Refused):
    """The request needs something that is unavailable: 503 with a Status, which Kubernetes' clients understand."""

    def __init__(self, sentence: str) -> None:
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, f"{sentence}; retry")

    def answer(self) -> web.Response:
        """Return the response, with Retry-After."""
        answer = status_response(self.status, "ServiceUnavailable", self.sentence)
        answer.headers["Retry-After"] = "1"
        return answer


def text_response(sentence: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Return plain text; `nosniff` keeps a browser from taking a client's text for HTML."""
    return web.Response(status=status, text=sentence, headers={"X-Content-Type-Options": "nosniff"})


def json_response(body: Any, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Return JSON as the API server writes it, without spaces."""
    encoded = json.dumps(body, separators=(",", ":")).encode()
    return web.Response(status=status, body=encoded, content_type="application/json")


def status_response(status: HTTPStatus, reason: str, message: str) -> web.Response:
    """Return a Status object, the API server's form of an error."""
    failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json_response({**failure, "message": message, "reason": reason, "code": status.value}, status)


def raw_json_response(body: bytes) -> web.Response:
    """Return JSON that is already encoded."""
    return web.Response(body=body, content_type="application/json")
