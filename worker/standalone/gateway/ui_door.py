"""The Temporal UI's port on loopback: a request passes only with the node's token, as HTTP Basic's password.

Everybody on the machine can connect, and every web page in an operator's browser can send requests. A password of HTTP
Basic belongs to one origin, so, unlike a cookie, the browser never sends it to another port of 127.0.0.1, as that of a
`kubectl port-forward`. What passes is carried to the UI, or, below /codec, to the worker, which decodes payloads.
"""

import base64
import binascii
import hmac
import re
import socket
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from worker.standalone.gateway.carrying import answer_last, carry
from worker.standalone.gateway.heads import BadHead, Head, answer, read_head

LOGIN: Final = b"/login"
CODEC: Final = b"/codec"
"""What the UI is given as its codec endpoint: a path, so that it is right whatever name or tunnel leads here."""
FIRST_PAGE: Final = "/namespaces/tempolet/workflows"
HEAD_WITHIN: Final = 10.0
_HOST: Final = re.compile(rb"[A-Za-z0-9.-]+(:\d+)?|\[[0-9A-Fa-f:]+\](:\d+)?")
_ASK: Final = 'WWW-Authenticate: Basic realm="tempolet", charset="UTF-8"'
_NOT_LET_IN: Final = (
    "This is the Temporal UI of a tempolet node. Open the URL that `tempolet up` prints, or give the token in it as the "
    "password, with any user name.\n"
)


@dataclass(frozen=True, slots=True)
class UiDoor:
    """Who may pass, and where to."""

    token: str
    port: int
    """The UI's, in its own network."""
    codec: Path
    """The worker's socket."""

    def serve(self, caller: socket.socket) -> None:
        """Answer or carry on one request, then close."""
        try:
            text, rest = read_head(caller, HEAD_WITHIN)
            head = Head.parse(text)
        except BadHead as error:
            answer_last(caller, answer(HTTPStatus.BAD_REQUEST, f"{error}\n"))
            return
        if said := self.judge(head):
            answer_last(caller, said)
        else:
            self._pass_on(caller, head, rest)

    def judge(self, head: Head) -> bytes:
        """Return the answer to a request that goes no further; empty if it passes."""
        if is_foreign(head):
            return answer(HTTPStatus.FORBIDDEN, "only the UI's own pages may ask\n")
        if not self._has_token(head):
            return answer(HTTPStatus.UNAUTHORIZED, _NOT_LET_IN, _ASK)
        if head.target == LOGIN:  # away from a URL with a password, from which a page could fetch nothing
            return answer(HTTPStatus.SEE_OTHER, "", f"Location: http://{head.header(b'host').decode()}{FIRST_PAGE}")
        return b""

    def _has_token(self, head: Head) -> bool:
        kind, _, value = head.header(b"authorization").partition(b" ")
        try:
            password = base64.b64decode(value, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
        return kind.lower() == b"basic" and hmac.compare_digest(password, self.token.encode())

    def _pass_on(self, caller: socket.socket, head: Head, rest: bytes) -> None:
        decodes = head.target.startswith(CODEC + b"/")
        without = {b"authorization"} | ({b"origin"} if decodes else set())  # its origin has been judged here
        target = head.target.removeprefix(CODEC) if decodes else head.target
        try:
            server = connect_to_path(self.codec) if decodes else socket.create_connection(("127.0.0.1", self.port))
        except OSError as error:
            who = "the worker, which decodes," if decodes else "the UI"
            answer_last(caller, answer(HTTPStatus.BAD_GATEWAY, f"{who} does not answer: {error.strerror}\n"))
            return
        with server:
            server.sendall(head.for_one_exchange(target, frozenset(without)) + rest)
            carry(caller, server)


def is_foreign(head: Head) -> bool:
    """Report whether a page of another origin sends this, with the password that the browser remembers.

    A link from elsewhere may open the UI, but not in a frame.
    """
    host, origin = head.header(b"host"), head.header(b"origin")
    if not _HOST.fullmatch(host) or (
        any(name == b"origin" for name, _ in head.headers) and origin != b"http://" + host
    ):
        return True
    if head.header(b"sec-fetch-site") not in {b"cross-site", b"same-site"}:
        return False
    opened = (head.method, head.header(b"sec-fetch-mode"), head.header(b"sec-fetch-dest"))
    return opened != (b"GET", b"navigate", b"document")


def connect_to_path(path: Path) -> socket.socket:
    """Connect to a unix socket; raises OSError."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        server.connect(str(path))
    except OSError:
        server.close()
        raise
    return server
