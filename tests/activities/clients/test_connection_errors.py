"""Does a failed connection to the API server name the part of the kubeconfig that needs fixing?"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig, Material
from tests.activities.probes.probed_servers import CLOSED
from tests.cluster.certificates import Authority, Signed

UNAUTHORIZED = b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 26\r\n\r\n{"message":"Unauthorized"}'


@asynccontextmanager
async def refusing(pair: Signed) -> AsyncIterator[int]:
    """Serve TLS and refuse every request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(UNAUTHORIZED)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def said(kubeconfig: Kubeconfig) -> str:
    """Send a request and return the text of its error."""
    async with ApiServer(kubeconfig) as api:
        with pytest.raises((ApiAway, ApiRefused)) as refused:
            await api.get("/api/v1/nodes/n")
    return str(refused.value)


async def test_an_authority_of_another_cluster_is_named(tmp_path: Path) -> None:
    """It names the file, and does not show the memory address of an object."""
    ours, theirs = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs")
    async with refusing(theirs.sign("server", "api", hosts=["127.0.0.1"])) as port:
        words = await said(Kubeconfig(f"https://127.0.0.1:{port}", authority=Material(ours.folder / "ca.crt")))
    assert f"the certificate of https://127.0.0.1:{port} is not trusted: " in words
    assert str(ours.folder / "ca.crt") in words
    assert "object at" not in words


async def test_a_certificate_that_is_not_valid_now_may_be_the_clocks_fault(tmp_path: Path) -> None:
    """The clock is shown, and no part of the kubeconfig is blamed."""
    authority = Authority.make(tmp_path)
    expired = authority.sign("server", "api", hosts=["127.0.0.1"], lifetime=timedelta(days=-1))
    async with refusing(expired) as port:
        words = await said(Kubeconfig(f"https://127.0.0.1:{port}", authority=Material(tmp_path / "ca.crt")))
    assert (
        f"the certificate of https://127.0.0.1:{port} is not trusted: certificate has expired, by this machine's clock"
        in words
    )
    assert f"{datetime.now(UTC):%Y-%m-%d}" in words
    assert "timedatectl set-ntp true" in words
    assert "certificate-authority" not in words


async def test_nobody_at_the_address_is_said_in_a_line() -> None:
    """The operator needs the address to compare."""
    words = await said(Kubeconfig(f"https://127.0.0.1:{CLOSED}"))
    assert f"no connection to 127.0.0.1:{CLOSED}: " in words
    assert "object at" not in words


@pytest.mark.parametrize(
    ("lifetime", "words"),
    [
        pytest.param(timedelta(days=-1), "has expired at 2", id="expired"),
        pytest.param(
            timedelta(days=1), "the API server's --client-ca-file has not signed it", id="of-another-authority"
        ),
    ],
)
async def test_a_client_certificate_that_is_not_taken_is_named(tmp_path: Path, lifetime: timedelta, words: str) -> None:
    """The file and the certificate's subject are named; the API server itself only says Unauthorized."""
    authority = Authority.make(tmp_path)
    shown = authority.sign("n", "system:node:n", ["system:nodes"], lifetime=lifetime)
    async with refusing(authority.sign("server", "api", hosts=["127.0.0.1"])) as port:
        kubeconfig = Kubeconfig(
            f"https://127.0.0.1:{port}",
            authority=Material(tmp_path / "ca.crt"),
            certificate=Material(shown.certificate),
            key=Material(shown.key),
        )
        told = await said(kubeconfig)
    assert told.startswith("Unauthorized: the client certificate of CN=system:node:n,O=system:nodes")
    assert str(shown.certificate) in told
    assert words in told


@pytest.mark.parametrize(
    ("token", "words"),
    [
        pytest.param(Material(data=b"canary"), "the token of the kubeconfig (in the kubeconfig itself)", id="a-token"),
        pytest.param(Material(), "neither a client certificate nor a token", id="nothing-at-all"),
    ],
)
async def test_a_token_that_is_not_taken_is_not_told(tmp_path: Path, token: Material, words: str) -> None:
    """Only where the token comes from is shown."""
    authority = Authority.make(tmp_path)
    async with refusing(authority.sign("server", "api", hosts=["127.0.0.1"])) as port:
        told = await said(Kubeconfig(f"https://127.0.0.1:{port}", authority=Material(tmp_path / "ca.crt"), token=token))
    assert words in told
    assert "canary" not in told


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """OpenSSL's own error does not name it."""
    pair = Material(tmp_path / "n.crt"), Material(tmp_path / "n.key")
    words = await said(Kubeconfig(f"https://127.0.0.1:{CLOSED}", certificate=pair[0], key=pair[1]))
    assert f"{pair[0].path} or {pair[1].path}: cannot be read: No such file or directory" in words
