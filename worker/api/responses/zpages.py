"""Content negotiation of /statusz and /flagz: text, or an object of config.k8s.io if the client asks for one.

An `Accept` header for JSON must name the object (`application/json;g=config.k8s.io;v=v1beta1;as=Statusz`), as in
apiserver/pkg/server/statusz; v1alpha1 is answered with a warning. YAML and CBOR are not served.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from worker.api.responses.responses import json_response, status_response

_GROUP: Final = "config.k8s.io"
_VERSIONS: Final = ("v1beta1", "v1alpha1")
_DEPRECATED: Final = '299 - "This version of the {} endpoint is deprecated. Please use a newer version."'
_HEADER: Final = """
kubelet {}
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.
"""


def zpage(accept: str, kind: str, plain: Callable[[], str], content: Callable[[], Mapping[str, Any]]) -> web.Response:
    """Answer the first supported media type of the client's preferences; 406 if there is none."""
    name = kind.lower()
    for media, parameters in accepted(accept):
        if media in {"text/plain", "text/*", "*/*"}:
            return web.Response(text=_HEADER.format(name) + plain(), content_type="text/plain", charset="utf-8")
        version = parameters.get("v", "")
        asked_for = (parameters.get("g"), parameters.get("as"))
        if media in {"application/json", "application/*"} and asked_for == (_GROUP, kind) and version in _VERSIONS:
            body = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": "kubelet"}, **content()}
            answer = json_response(body)
            if version == "v1alpha1":
                answer.headers["Warning"] = _DEPRECATED.format(name)
            return answer
    known = f"text/plain, application/json;g={_GROUP};v=v1beta1;as={kind}"
    message = f"only the following media types are accepted: {known}"
    return status_response(HTTPStatus.NOT_ACCEPTABLE, "NotAcceptable", message)


def accepted(header: str) -> list[tuple[str, dict[str, str]]]:
    """Parse an Accept header into media types with parameters, by preference; empty means text."""
    found = []
    for position, one in enumerate(header.split(",") if header.strip() else ["text/plain"]):
        media, *pairs = (part.strip() for part in one.split(";"))
        parameters = {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs)}
        found.append((-_quality(parameters.get("q", "1")), position, media.lower(), parameters))
    return [(media, parameters) for rank, _, media, parameters in sorted(found, key=lambda one: one[:2]) if rank < 0]


def _quality(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0
