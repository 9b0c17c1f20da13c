"""Are settings that no server could answer told before anything is connected, and a refusal told from a Temporal that is away?"""

from pathlib import Path

import pytest
from temporalio.service import TLSConfig

from tests.cluster.certificates import Authority
from worker.temporal.connect_errors import TemporalMisconfigured, reason, refusal, refuse_unusable
from worker.temporal.temporal_client import (
    API_KEY_CREDENTIAL,
    CREDENTIALS,
    TLS_KEY_CREDENTIAL,
    TemporalSettings,
    connect_options,
    with_credentials,
)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        pytest.param("127.0.0.1:7233", "", id="an-ip-address"),
        pytest.param("[::1]:7233", "", id="an-ipv6-address"),
        pytest.param("temporal.example:7233", "", id="a-name-that-dns-may-know-later"),
        pytest.param("unix:///run/tempolet/temporal/grpc.sock", "", id="a-socket-that-may-come-later"),
        pytest.param("temporal.example", "has no port", id="no-port"),
        pytest.param("temporal.example:72x33", "is no address", id="a-port-with-letters"),
        pytest.param("temporal.example:72330", "has no such port", id="a-port-that-is-too-high"),
        pytest.param("temporal.example:0", "has no such port", id="port-0"),
        pytest.param("temporal example:7233", "is no address", id="a-space"),
        pytest.param("", "is no address", id="nothing"),
        pytest.param(f"unix:///{'x' * 107}", "is too long", id="a-path-that-no-socket-has"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(address: str, why: str) -> None:
    """A typo is told at once; what may exist later is waited for."""
    assert refused({"target_host": address}) == (f"Temporal's address {address!r} {why}" if why else "")


def refused(options: dict[str, object]) -> str:
    """Return why options are refused, without the advice behind it."""
    try:
        refuse_unusable(options)
    except TemporalMisconfigured as error:
        return str(error).partition(": it is")[0].partition(" for a socket")[0]
    return ""


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        pytest.param({}, "", id="all-of-one-authority"),
        pytest.param({"server_root_ca_cert": b"nonsense"}, "the server's CA certificate cannot be read", id="no-ca"),
        pytest.param({"client_cert": b"nonsense"}, "the client's certificate cannot be read", id="no-certificate"),
        pytest.param({"client_private_key": b"nonsense"}, "the client's key cannot be read", id="no-key"),
        pytest.param({"client_private_key": None}, "or neither", id="a-certificate-without-its-key"),
        pytest.param({"client_private_key": "other"}, "is not that of its certificate", id="the-key-of-another"),
    ],
)
def test_tls_material_that_cannot_work_is_refused(tmp_path: Path, changed: dict[str, object], why: str) -> None:
    """Without asking a server: nothing but another file helps."""
    authority = Authority.make(tmp_path)
    own, other = authority.sign("own", "own"), authority.sign("other", "other")
    if changed.get("client_private_key") == "other":
        changed = {"client_private_key": other.key.read_bytes()}
    material = {
        "server_root_ca_cert": (tmp_path / "ca.crt").read_bytes(),
        "client_cert": own.certificate.read_bytes(),
        "client_private_key": own.key.read_bytes(),
        **changed,
    }
    said = refused({"target_host": "temporal.example:7233", "tls": TLSConfig(**material)})  # type: ignore[arg-type]
    assert (why in said) if why else said == ""


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/nowhere/ca.crt"}, id="a-ca-file-that-is-missing"),
        pytest.param({"TEMPORAL_PROFILE": "nobodys"}, id="a-profile-that-is-missing"),
    ],
)
def test_settings_that_cannot_be_read_are_named(key_file: Path, environment: dict[str, str]) -> None:
    """The message has what is missing."""
    with pytest.raises(TemporalMisconfigured, match=r"/nowhere/ca\.crt|nobodys"):
        connect_options(TemporalSettings(key_file=key_file, environment=environment))


WORDS = "Failed client connect: Server connection error: tonic::transport::Error(Transport, {})"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(
            WORDS.format('ConnectError(ConnectError("tcp connect error", 127.0.0.1:1, Os { code: 111 }))'),
            "",
            id="nobody-listens",
        ),
        pytest.param(WORDS.format('ConnectError(ConnectError("dns error"))'), "", id="an-unknown-name"),
        pytest.param(
            "Failed client connect: `get_system_info` call error after connection: Status { code: Cancelled, message: "
            '"Timeout expired", source: Some(tonic::transport::Error(Transport, TimeoutExpired(()))) }',
            "",
            id="a-server-that-is-silent",
        ),
        pytest.param(WORDS.format("Custom { kind: TimedOut, error: Elapsed(()) }"), "", id="a-socket-that-is-silent"),
        pytest.param(WORDS.format("PrivateKeyParseError"), "TLS: PrivateKeyParseError", id="a-key-that-is-none"),
        pytest.param(
            WORDS.format("ConnectError(Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }))"),
            "TLS: InvalidCertificate(UnknownIssuer)",
            id="a-certificate-that-we-do-not-trust",
        ),
        pytest.param(WORDS.format("InconsistentKeys(KeyMismatch)"), "TLS: InconsistentKeys(KeyMismatch", id="keys"),
        pytest.param(
            "Failed client connect: `get_system_info` call error after connection: Status { code: PermissionDenied, "
            'message: "Request unauthorized.", source: None }',
            "PERMISSION_DENIED Request unauthorized.",
            id="credentials-that-temporal-refuses",
        ),
    ],
)
def test_a_refusal_is_told_from_a_temporal_that_is_away(said: str, why: str) -> None:
    """In the words of the SDK's core."""
    assert refusal(RuntimeError(said)) == why
    assert reason(RuntimeError(said))


@pytest.mark.parametrize(
    ("files", "variables", "expected"),
    [
        pytest.param({}, {"TEMPORAL_ADDRESS": "a:1"}, {"TEMPORAL_ADDRESS": "a:1"}, id="none"),
        pytest.param({API_KEY_CREDENTIAL: b"key\n"}, {}, {"TEMPORAL_API_KEY": "key"}, id="an-api-key"),
        pytest.param(
            {API_KEY_CREDENTIAL: b"key"}, {"TEMPORAL_API_KEY": "set"}, {"TEMPORAL_API_KEY": "set"}, id="a-variable-wins"
        ),
        pytest.param(
            {TLS_KEY_CREDENTIAL: b"pem"}, {}, {"TEMPORAL_TLS_CLIENT_KEY_PATH": TLS_KEY_CREDENTIAL}, id="a-tls-key"
        ),
        pytest.param(
            {TLS_KEY_CREDENTIAL: b"pem"},
            {"TEMPORAL_TLS_CLIENT_KEY_PATH": "/k"},
            {"TEMPORAL_TLS_CLIENT_KEY_PATH": "/k"},
            id="a-path-wins",
        ),
    ],
)
def test_credentials_of_the_unit(
    files: dict[str, bytes], variables: dict[str, str], expected: dict[str, str], tmp_path: Path
) -> None:
    """They stand for variables that are not set."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    found = with_credentials({CREDENTIALS: str(tmp_path), **variables})
    del found[CREDENTIALS]
    assert {name: value.removeprefix(f"{tmp_path}/") for name, value in found.items()} == expected


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n", id="an-empty-line"),
        pytest.param(b"one\ntwo\n", id="two-lines"),
        pytest.param("schl\u00fcssel".encode(), id="not-ascii"),
        pytest.param(b"x" * 16385, id="too-long"),
    ],
)
def test_a_credential_that_is_no_api_key_is_refused(content: bytes, tmp_path: Path) -> None:
    """With its name and without its content."""
    (tmp_path / API_KEY_CREDENTIAL).write_bytes(content)
    settings = TemporalSettings(key_file=tmp_path / "keys", environment={CREDENTIALS: str(tmp_path)})
    with pytest.raises(TemporalMisconfigured, match=rf"credential {API_KEY_CREDENTIAL} is no API key") as refusal:
        connect_options(settings)
    assert len(str(refusal.value)) < 200


def test_a_client_gets_the_api_key_of_its_unit(tmp_path: Path) -> None:
    """As if the variable had it."""
    (tmp_path / API_KEY_CREDENTIAL).write_text("canary")
    settings = TemporalSettings(
        key_file=tmp_path / "keys", address="temporal.example:7233", environment={CREDENTIALS: str(tmp_path)}
    )
    assert connect_options(settings).get("api_key") == "canary"
