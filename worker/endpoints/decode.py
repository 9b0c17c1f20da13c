"""The codec endpoint that decrypts payloads for the Temporal UI, which calls it from the browser.

Served by the worker, for the embedded Temporal on a unix socket of root's, which the UI's door leads to (`worker/standalone/
gateway`). For a UI elsewhere it is served on loopback, at `http://<address>/<token>`. That UI is given the address when it starts
(`temporal server start-dev --ui-codec-endpoint`) and adds `/decode`. The token is in the path because that is the only place where the UI
takes one without a person entering it: it sends an access token to https endpoints only, and start-dev has no option for
cookies. `temporal … --codec-endpoint` takes the same address.

It only decodes. Encoding would let a browser send signals and updates encrypted as if tempolet had sent them. A payload that
cannot be decrypted is replaced by the reason, so that it does not hide the rest. It is marked, and so is a payload that is not
encrypted: a replay of an exported history refuses what the worker has refused.

The token keeps out web pages and programs that do not know it. It does not separate users of one machine if the UI's settings,
which contain the address, are readable for everyone who can reach the UI.
"""

import contextlib
import hmac
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from google.protobuf.json_format import MessageToJson, Parse, ParseError
from temporalio.api.common.v1 import Payload, Payloads

from worker.endpoints.server import Address, Answer, Endpoint, Request
from worker.payloads.refused import PayloadRefused, marked_refused
from worker.temporal.codec import ENCRYPTED, PayloadCipher
from worker.temporal.keys import KeyFile, KeyMissing
from worker.temporal.private_files import KeyFileRefused

_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9_, -]+")
_JSON: Final = "application/json"
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class CodecEndpointSettings:
    """Address, token and key of the endpoint; ValueError for an address that other machines can reach."""

    address: Address | Path
    """A path is a unix socket, whose folder says who may use it: it needs no token."""
    token: str
    key_file: Path
    namespace: str
    origins: frozenset[str]
    """The origins of the Temporal UI; pages of other origins are refused."""

    def __post_init__(self) -> None:
        if isinstance(self.address, Address) and not self.address.loopback:
            raise ValueError(
                f"the codec endpoint opens payloads, so it listens on loopback only, not on {self.address}"
            )

    @property
    def url(self) -> str:
        """The value for `--ui-codec-endpoint` and `temporal --codec-endpoint`."""
        return f"http://{self.address}/{self.token}"


def ui_origins(ui: Address) -> frozenset[str]:
    """Return the origins of a UI served at this address; on loopback, under each of loopback's names."""
    names = {str(ui)} | ({f"{name}:{ui.port}" for name in _LOOPBACK_NAMES} if ui.loopback else set())
    return frozenset(f"http://{name}" for name in names)


def serve_codec(settings: CodecEndpointSettings) -> Endpoint:
    """Start the endpoint; raises OSError if its port is taken."""
    decoder = CodecRoutes(settings)
    base = f"/{settings.token}" if settings.token else ""
    return Endpoint(settings.address, {f"{base}/decode": decoder.decode, f"{base}/encode": decoder.encode}).start()


class CodecRoutes:
    """The two routes of Temporal's codec server protocol; called in the endpoint's threads."""

    def __init__(self, settings: CodecEndpointSettings) -> None:
        self._namespace = settings.namespace
        self._token = settings.token
        self._origins = settings.origins
        self._cipher = PayloadCipher(KeyFile(settings.key_file))
        self._one_at_a_time = threading.Lock()  # a PayloadCipher is not thread-safe

    def decode(self, request: Request) -> Answer:
        """Decrypt the payloads of one request, or answer the reason in their place."""
        if refusal := self._refusal(request):
            return refusal
        if request.method == "OPTIONS":
            return Answer(HTTPStatus.NO_CONTENT, headers=self._cors(request))
        try:
            asked = Parse(request.body, Payloads(), ignore_unknown_fields=True)
        except (ParseError, UnicodeDecodeError):
            return Answer(HTTPStatus.BAD_REQUEST, b"expected Temporal's Payloads as JSON", headers=self._cors(request))
        with self._one_at_a_time:
            answer = Payloads(payloads=self._opened(asked.payloads))
        return Answer(body=MessageToJson(answer, indent=None).encode(), content_type=_JSON, headers=self._cors(request))

    def encode(self, request: Request) -> Answer:
        """Refuse: only tempolet's own clients send signals. An empty list is encoded, for a query without arguments."""
        if refusal := self._refusal(request):
            return refusal
        if request.method == "OPTIONS":
            return Answer(HTTPStatus.NO_CONTENT, headers=self._cors(request))
        with contextlib.suppress(ParseError, UnicodeDecodeError):
            if not Parse(request.body, Payloads(), ignore_unknown_fields=True).payloads:
                return Answer(body=b"{}", content_type=_JSON, headers=self._cors(request))
        reason = b"this endpoint only decodes: send signals and updates with tempolet"
        return Answer(HTTPStatus.FORBIDDEN, reason, headers=self._cors(request))

    def _refusal(self, request: Request) -> Answer | None:
        if self._token and not hmac.compare_digest(request.path.split("/")[1], self._token):
            return Answer(HTTPStatus.NOT_FOUND, b"not found")
        origin = request.headers.get("origin")
        if origin is not None and origin not in self._origins:
            return Answer(HTTPStatus.FORBIDDEN, b"only the Temporal UI's own pages may ask")
        if request.method not in {"OPTIONS", "POST"}:
            return Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"POST", headers={"Allow": "POST, OPTIONS"})
        namespace = request.headers.get("x-namespace", self._namespace)
        if request.method == "POST" and namespace != self._namespace:
            reason = f"this endpoint opens namespace {self._namespace}, not {namespace}"
            return Answer(HTTPStatus.BAD_REQUEST, reason.encode(), headers=self._cors(request))
        return None

    def _opened(self, payloads: Iterable[Payload]) -> list[Payload]:
        return [
            self._open(payload) if payload.metadata.get("encoding") == ENCRYPTED else marked_refused(payload)
            for payload in payloads
        ]

    def _open(self, payload: Payload) -> Payload:
        try:
            return self._cipher.decrypt(payload, self._namespace)
        except (PayloadRefused, KeyMissing, KeyFileRefused) as error:
            shown = json.dumps(f"cannot be shown: {error}").encode()
            return marked_refused(Payload(metadata={"encoding": b"json/plain"}, data=shown))

    def _cors(self, request: Request) -> dict[str, str]:
        origin = request.headers.get("origin")
        if origin not in self._origins:
            return {}
        headers = request.headers.get("access-control-request-headers", "")
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST",
            "Access-Control-Allow-Headers": headers if _HEADER_NAMES.fullmatch(headers) else "content-type",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
        }
