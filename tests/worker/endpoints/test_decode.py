"""Does the endpoint decrypt payloads for the UI, and for nobody else?"""

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads

from worker.endpoints.decode import CodecEndpointSettings, serve_codec, ui_origins
from worker.endpoints.server import LARGEST_BODY, Address, Endpoint
from worker.payloads.refused import MARK
from worker.temporal.codec import PayloadCipher
from worker.temporal.keys import KeyFile, add_key, create_key_file

TOKEN = "0123456789abcdefghij"
WORKFLOW_ID = "pod/node-1/default/hello/1"
UI = "http://127.0.0.1:8233"
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"hello"')


@pytest.fixture
def settings(key_file: Path) -> CodecEndpointSettings:
    """Settings for a free port of loopback and a UI on 8233."""
    return CodecEndpointSettings(
        address=Address("127.0.0.1", 0),
        token=TOKEN,
        key_file=key_file,
        namespace="tempolet",
        origins=ui_origins(Address.parse("127.0.0.1:8233")),
    )


@pytest.fixture
def endpoint(settings: CodecEndpointSettings) -> Iterator[Endpoint]:
    """Serve while the test runs."""
    served = serve_codec(settings)
    yield served
    served.close()


@pytest.fixture
def cipher(key_file: Path) -> PayloadCipher:
    """PayloadCipher as the worker does."""
    return PayloadCipher(KeyFile(key_file))


class Answer(NamedTuple):
    """A complete response."""

    status: int
    headers: http.client.HTTPMessage
    payload: bytes


def ask(endpoint: Endpoint, path: str, body: bytes, method: str = "POST", **headers: str) -> Answer:
    """Send one request; header names have _ for -."""
    connection = http.client.HTTPConnection(endpoint.address.host, endpoint.address.port, timeout=20)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    payload = answer.read()
    connection.close()
    return Answer(answer.status, answer.headers, payload)


def decode(endpoint: Endpoint, *payloads: Payload, **headers: str) -> list[Payload]:
    """Request payloads as the UI does."""
    body = json.dumps(MessageToDict(Payloads(payloads=payloads))).encode()
    answer = ask(endpoint, f"/{TOKEN}/decode", body, **{"X-Namespace": "tempolet", "Origin": UI, **headers})
    assert answer.status == 200, answer.payload
    assert answer.headers["Access-Control-Allow-Origin"] == headers.get("Origin", UI)
    return list(ParseDict(json.loads(answer.payload), Payloads()).payloads)


def test_the_ui_gets_its_payloads_opened(endpoint: Endpoint, cipher: PayloadCipher) -> None:
    """In order; clear ones (headers, the SDK's markers) keep their text, and are marked for a replay."""
    encrypted = cipher.encrypt(PLAIN, "tempolet", WORKFLOW_ID)
    clear = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    first, unsealed, last = decode(endpoint, encrypted, clear, encrypted)
    assert [first, last] == [PLAIN, PLAIN]
    assert (unsealed.data, dict(unsealed.metadata)) == (b"1", {"encoding": b"json/plain", MARK: b"1"})


def test_a_payload_that_does_not_open_hides_no_other(endpoint: Endpoint, cipher: PayloadCipher, tmp_path: Path) -> None:
    """It is replaced by the reason, as text that the UI shows."""
    create_key_file(tmp_path / "other")
    foreign = PayloadCipher(KeyFile(tmp_path / "other")).encrypt(PLAIN, "tempolet", WORKFLOW_ID)
    elsewhere = cipher.encrypt(PLAIN, "default", WORKFLOW_ID)
    answers = decode(endpoint, foreign, cipher.encrypt(PLAIN, "tempolet", WORKFLOW_ID), elsewhere)
    texts = [json.loads(answer.data) for answer in answers]
    assert "not an active one" in texts[0]
    assert texts[1] == "hello"
    assert "another namespace" in texts[2]


def test_a_rotated_key_is_found_without_a_restart(endpoint: Endpoint, key_file: Path) -> None:
    """The key file is read again when a payload names an unknown key."""
    add_key(key_file)
    encrypted = PayloadCipher(KeyFile(key_file)).encrypt(PLAIN, "tempolet", WORKFLOW_ID)
    assert decode(endpoint, encrypted) == [PLAIN]


@pytest.mark.parametrize("body", [b"{}", b'{"payloads":[]}'])
def test_nothing_is_encoded_to_nothing(endpoint: Endpoint, body: bytes) -> None:
    """The CLI requests this before a query without arguments."""
    answer = ask(endpoint, f"/{TOKEN}/encode", body, **{"X-Namespace": "tempolet"})
    assert (answer.status, json.loads(answer.payload)) == (200, {})


@pytest.mark.parametrize("origin", [f"http://{name}:8233" for name in ("127.0.0.1", "localhost", "[::1]")])
def test_the_ui_may_ask_under_each_of_its_names(endpoint: Endpoint, origin: str) -> None:
    """The preflight request is answered for the UI's origins, with the requested headers."""
    answer = ask(
        endpoint,
        f"/{TOKEN}/decode",
        b"",
        "OPTIONS",
        Origin=origin,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="content-type,x-namespace",
    )
    assert answer.status == 204
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-namespace"
    assert answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        pytest.param(f"/{TOKEN}/encode", "POST", {"Origin": UI}, 403, id="encode-is-refused"),
        pytest.param("/decode", "POST", {"Origin": UI}, 404, id="no-token"),
        pytest.param(f"/{TOKEN[:-1]}x/decode", "POST", {"Origin": UI}, 404, id="another-token"),
        pytest.param(f"/{TOKEN}/decode", "POST", {"Origin": "http://evil.example"}, 403, id="another-page"),
        pytest.param(f"/{TOKEN}/decode", "POST", {"Origin": "http://127.0.0.1:9"}, 403, id="another-local-page"),
        pytest.param(f"/{TOKEN}/decode", "POST", {"Origin": "null"}, 403, id="a-page-from-a-file"),
        pytest.param(
            f"/{TOKEN}/decode", "OPTIONS", {"Origin": "http://evil.example"}, 403, id="another-page-asks-first"
        ),
        pytest.param(f"/{TOKEN}/decode", "GET", {}, 405, id="get"),
        pytest.param(f"/{TOKEN}/decode", "POST", {"X-Namespace": "default"}, 400, id="another-namespace"),
    ],
)
def test_nobody_else_gets_anything(
    endpoint: Endpoint, cipher: PayloadCipher, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    """Each refusal has its status, shows nothing and, for another origin, has no CORS permission."""
    body = json.dumps(MessageToDict(Payloads(payloads=[cipher.encrypt(PLAIN, "tempolet", WORKFLOW_ID)]))).encode()
    answer = ask(endpoint, path, body, method, **headers)
    assert answer.status == status
    assert b"hello" not in answer.payload
    if headers.get("Origin") != UI:
        assert answer.headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param(b"{", {}, 400, id="no-json"),
        pytest.param(b"[1]", {}, 400, id="a-list"),
        pytest.param(b"\0\xff", {}, 400, id="bytes"),
        pytest.param(b"", {"Content-Length": str(LARGEST_BODY + 1)}, 413, id="too-long"),
        pytest.param(b"", {"Content-Length": "-1"}, 413, id="a-length-below-zero"),
    ],
)
def test_a_bad_body_is_a_clear_answer(endpoint: Endpoint, body: bytes, headers: dict[str, str], status: int) -> None:
    """It is a client error, and a large body is not read into memory."""
    assert ask(endpoint, f"/{TOKEN}/decode", body, **headers).status == status


def test_on_a_socket_of_roots_it_needs_no_token(
    settings: CodecEndpointSettings, cipher: PayloadCipher, tmp_path: Path
) -> None:
    """It replaces a socket that a killed process left, and leaves none."""
    path = tmp_path / "codec.sock"
    path.touch()
    served = serve_codec(replace(settings, address=path, token="", origins=frozenset()))
    try:
        assert path.stat().st_mode & 0o777 == 0o600
        body = json.dumps(MessageToDict(Payloads(payloads=[cipher.encrypt(PLAIN, "tempolet", WORKFLOW_ID)]))).encode()
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(path))
            head = f"POST /decode HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            caller.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: caller.recv(4096), b""))
    finally:
        served.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert list(ParseDict(json.loads(answer.partition(b"\r\n\r\n")[2]), Payloads()).payloads) == [PLAIN]
    assert not path.exists()


def test_it_listens_on_loopback_only(settings: CodecEndpointSettings) -> None:
    """An address that other machines can reach is refused with the reason."""
    with pytest.raises(ValueError, match="loopback only"):
        replace(settings, address=Address("0.0.0.0", 0))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        pytest.param("127.0.0.1:10248", "127.0.0.1", 10248, id="v4"),
        pytest.param("[::1]:1", "::1", 1, id="v6"),
        pytest.param("localhost:80", "localhost", 80, id="localhost"),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    """Both families, and formatted again."""
    assert Address.parse(text) == Address(host, port)
    assert str(Address.parse(text)) == text


@pytest.mark.parametrize("text", ["", "127.0.0.1", "host:1", "127.0.0.1:x", "127.0.0.1:99999", "[::1", ":1"])
def test_a_bad_address_is_named(text: str) -> None:
    """The error contains the input."""
    with pytest.raises(ValueError, match="is no address to listen on"):
        Address.parse(text)


def test_the_address_for_the_ui_holds_the_token(settings: CodecEndpointSettings) -> None:
    """The UI adds /decode to it."""
    fixed: Any = replace(settings, address=Address("127.0.0.1", 8234))
    assert fixed.url == f"http://127.0.0.1:8234/{TOKEN}"
