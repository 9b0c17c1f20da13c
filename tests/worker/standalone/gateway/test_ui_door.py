"""Does a request reach the Temporal UI with the token only, and from the UI's own pages only?"""

import base64
import socket
from pathlib import Path

import pytest

from tests.worker.standalone.gateway.talking import answered, echoing, on_loopback, port_of
from worker.standalone.gateway.ui_door import UiDoor

TOKEN = "0123456789abcdefghij"
HOST = "127.0.0.1:8233"
UI = "/namespaces/tempolet/workflows"


def basic(token: str, user: str = "tempolet") -> str:
    """Return the header with which a browser sends a password."""
    return f"Authorization: Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"


def request(target: str, *headers: str, method: str = "GET", host: str = HOST, body: str = "") -> bytes:
    """Write a request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def door(port: int = 1, codec: Path = Path("/none")) -> UiDoor:
    """Return a door; by default nothing is behind it."""
    return UiDoor(TOKEN, port, codec)


def status(answer: bytes) -> int:
    """Read the status of an answer."""
    return int(answer.split(b" ", 2)[1])


GOOD = basic(TOKEN)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param(request("/"), 401, id="no-token"),
        pytest.param(request(UI, basic(TOKEN[:-1])), 401, id="a-part-of-the-token"),
        pytest.param(request(UI, basic("")), 401, id="an-empty-token"),
        pytest.param(request(UI, f"Authorization: Bearer {TOKEN}"), 401, id="another-scheme"),
        pytest.param(request(UI, "Authorization: Basic ?"), 401, id="no-base64"),
        pytest.param(request(UI, basic("x"), GOOD), 401, id="two-passwords"),
        pytest.param(request(f"/?token={TOKEN}"), 401, id="in-the-path"),
        pytest.param(request("/api/v1/settings"), 401, id="the-api"),
        pytest.param(request("/codec/decode", method="POST"), 401, id="decoding"),
        pytest.param(request("/login"), 401, id="login"),
        pytest.param(request("/", GOOD, host="evil.example/x"), 403, id="a-host-that-is-none"),
        pytest.param(request("/", GOOD, "Host: evil.example"), 403, id="two-hosts"),
        pytest.param(request("/", GOOD, "Origin: http://evil.example"), 403, id="another-origin"),
        pytest.param(request("/", GOOD, "Origin: http://127.0.0.1:9"), 403, id="another-port's-page"),
        pytest.param(request("/", GOOD, "Origin: null"), 403, id="a-page-without-origin"),
        pytest.param(request("/", GOOD, f"Origin: http://{HOST}", "Origin: x"), 403, id="two-origins"),
        pytest.param(request("/", GOOD, "Sec-Fetch-Site: cross-site"), 403, id="fetched-by-another-page"),
        pytest.param(
            request("/", GOOD, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"),
            403,
            id="in-a-frame-of-another-port's-page",
        ),
        pytest.param(b"GET / HTTP/2\r\n\r\n", 400, id="another-protocol"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="grpc"),
        pytest.param(request("/", "Bad header: x", GOOD), 400, id="a-name-with-a-space"),
        pytest.param(request("/", " folded: x", GOOD), 400, id="a-folded-line"),
        pytest.param(request("/", f"X: {'x' * 40_000}"), 400, id="a-head-without-end"),
    ],
)
def test_nobody_else_gets_in(asked: bytes, found: int) -> None:
    """Nothing is asked of the UI: behind this door there is none, so that an answer of it would be 502."""
    assert status(answered(door().serve, asked)) == found


def test_who_is_let_in_is_asked_for_a_password() -> None:
    """A browser shows its dialog, and a person reads what to give."""
    answer = answered(door().serve, request("/"))
    assert b'WWW-Authenticate: Basic realm="tempolet"' in answer
    assert b"`tempolet up` prints" in answer


def test_a_slow_caller_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that never ends holds a place for a bounded time."""
    monkeypatch.setattr("worker.standalone.gateway.ui_door.HEAD_WITHIN", 0.05)
    assert b"too slow" in answered(door().serve, b"GET / HTTP/1.1\r\nX: ")


@pytest.mark.parametrize("user", ["tempolet", "", "anybody"])
@pytest.mark.parametrize("host", [HOST, "localhost:9000", "[::1]:8233", "127.0.0.1"])
def test_the_login_leads_to_the_pods_without_the_password(user: str, host: str) -> None:
    """Under the name and port by which the browser came, perhaps through a tunnel."""
    answer = answered(door().serve, request("/login", basic(TOKEN, user), host=host))
    assert status(answer) == 303
    assert f"Location: http://{host}{UI}\r\n".encode() in answer


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="curl"),
        pytest.param(["Sec-Fetch-Site: same-origin", f"Origin: http://{HOST}"], id="its-own-page"),
        pytest.param(["Sec-Fetch-Site: none"], id="typed"),
        pytest.param(
            ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"], id="a-link"
        ),
    ],
)
def test_with_the_token_it_passes_one_exchange(headers: list[str]) -> None:
    """The UI sees neither the token nor a wish for a second request, and gets the body."""
    with echoing(listener := on_loopback()) as seen:
        asked = request(UI, GOOD, "Connection: keep-alive", "X-Y: z", *headers, body="body")
        assert answered(door(port_of(listener)).serve, asked) == b"seen"
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == f"get {UI} http/1.1".encode()
    assert b"x-y: z" in lines
    assert [line for line in lines if line.startswith((b"authorization", b"connection"))] == [b"connection: close"]
    assert body == b"body"


def test_what_is_below_codec_goes_to_the_worker(tmp_path: Path) -> None:
    """Without the origin: that it is the UI's own is judged here, and the worker knows no name of this door."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "codec.sock"))
    with echoing(listener) as seen:
        asked = request("/codec/decode", GOOD, f"Origin: http://{HOST}", method="POST")
        assert answered(door(codec=tmp_path / "codec.sock").serve, asked) == b"seen"
    assert seen[0].startswith(b"POST /decode HTTP/1.1\r\n")
    assert b"origin" not in seen[0].lower()


@pytest.mark.parametrize(("target", "who"), [(UI, b"the UI"), ("/codec/decode", b"the worker")])
def test_a_server_that_is_away_is_named(target: str, who: bytes) -> None:
    """The worker may start after the UI."""
    answer = answered(door().serve, request(target, GOOD))
    assert status(answer) == 502
    assert who in answer
