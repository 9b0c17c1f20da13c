"""Does the API use the configured TLS versions, ciphers and certificates, also while certificates change?"""

import asyncio
import contextlib
import dataclasses
import ssl
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tests.cluster.certificates import Authority, Signed
from tests.patience import PATIENCE
from tests.worker.api.node_api import NodeApi, client_context, node_api
from worker.api import server
from worker.api.access import tls
from worker.api.access.serving_certificate import SELF_SIGNED, SELF_SIGNED_KEY, Pair, make_self_signed, serving_pair
from worker.api.access.tls import CIPHERS, ReloadingContext, check_tls, serving_context
from worker.settings.cluster import SERVER_CERTIFICATE, Authentication, ClusterSettings, Serving
from worker.settings.kubelet.configuration import ConfigurationRefused


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the files often."""
    monkeypatch.setattr(server, "CERTIFICATES_CHECKED_EVERY", timedelta(milliseconds=20))


async def shown(api: NodeApi, context: ssl.SSLContext | None = None) -> x509.Certificate:
    """Return the certificate that a new connection is shown; raises the handshake's error."""
    async with connected(api, context or client_context()) as connection:
        found = connection.getpeercert(binary_form=True)
        assert found is not None
        return x509.load_der_x509_certificate(found)


@contextlib.asynccontextmanager
async def connected(api: NodeApi, context: ssl.SSLContext) -> AsyncIterator[ssl.SSLObject]:
    """Keep a connection open."""
    _, writer = await asyncio.open_connection("127.0.0.1", api.port, ssl=context, server_hostname="")
    try:
        yield writer.get_extra_info("ssl_object")
    finally:
        writer.transport.abort()


def certificate_of(signed: Signed) -> x509.Certificate:
    """Read a certificate."""
    return x509.load_pem_x509_certificate(signed.certificate.read_bytes())


def serving(signed: Signed, **changes: object) -> Serving:
    """Serve with the operator's certificate."""
    return dataclasses.replace(Serving(certificate=signed.certificate, key=signed.key), **changes)  # type: ignore[arg-type]  # fields


@pytest.mark.parametrize(
    ("least", "most", "speaks"),
    [
        pytest.param("", ssl.TLSVersion.TLSv1_1, False, id="1.1-never"),
        pytest.param("VersionTLS10", ssl.TLSVersion.TLSv1_1, False, id="1.1-not-even-when-asked-for"),
        pytest.param("", ssl.TLSVersion.TLSv1_2, True, id="1.2-by-default"),
        pytest.param("VersionTLS13", ssl.TLSVersion.TLSv1_2, False, id="1.2-not-where-1.3-is-asked-for"),
        pytest.param("VersionTLS13", ssl.TLSVersion.TLSv1_3, True, id="1.3"),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_versions(tmp_path: Path, least: str, most: ssl.TLSVersion, speaks: bool) -> None:
    """Including the context that replaces the first one."""
    async with node_api(tmp_path, serving=Serving(min_version=least)) as api:
        context = client_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = most
        context.set_ciphers("ALL:@SECLEVEL=0")
        if speaks:
            await shown(api, context)
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await shown(api, context)


async def test_ciphers_are_those_that_were_asked_for(tmp_path: Path) -> None:
    """By Go's names."""
    only = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with node_api(tmp_path, serving=Serving(cipher_suites=(only,))) as api:
        context = client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with connected(api, context) as connection:
            assert connection.cipher() == (CIPHERS[only], "TLSv1.2", 256)
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(api, context)


def test_every_cipher_that_is_named_is_one() -> None:
    """OpenSSL knows each of them; an unknown name is refused with its key."""
    for name in set(CIPHERS.values()):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)
    check_tls(Serving(cipher_suites=("TLS_AES_128_GCM_SHA256", *CIPHERS), min_version="VersionTLS12"))
    with pytest.raises(ConfigurationRefused, match="tlsCipherSuites 'TLS_RSA_WITH_RC4_128_SHA'"):
        check_tls(Serving(cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)))
    with pytest.raises(ConfigurationRefused, match=r"tlsMinVersion '1\.2'"):
        check_tls(Serving(min_version="1.2"))


def test_nothing_is_kept_of_a_connection_of_tls_1_3(tmp_path: Path) -> None:
    """There is no session to resume, and no 0-RTT data."""
    authority = Authority.make(tmp_path)
    served, client = served_by(authority), client_context(authority.sign("me", "alice"))
    first = handshaken(client, served)
    assert not handshaken(client, served, first).session_reused
    assert served.session_stats()["number"] == 0


def test_a_session_of_tls_1_2_is_taken_up_with_its_certificate(tmp_path: Path) -> None:
    """Only with the context that verified it; after a change of files a new context has no sessions."""
    authority = Authority.make(tmp_path)
    served, client = served_by(authority), client_context(authority.sign("me", "alice"))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    first = handshaken(client, served)
    assert handshaken(client, served, first).session_reused
    assert not handshaken(client, served_by(authority), first).session_reused


def test_sessions_are_not_kept_without_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client leaves a session; a context with many is replaced."""
    monkeypatch.setattr(tls, "MOST_SESSIONS", 2)
    authority = Authority.make(tmp_path)
    pair = authority.sign("node", "node")
    renewed = ReloadingContext(Serving(), lambda: Pair(pair.certificate, pair.key))
    assert not renewed.refresh()
    client = client_context()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    for _ in range(2):
        handshaken(client, renewed.context)
        renewed.refresh()
    full = renewed.context
    assert full.session_stats()["number"] == 2
    handshaken(client, full)
    assert not renewed.refresh()
    assert renewed.context is not full


def served_by(authority: Authority) -> ssl.SSLContext:
    """Return a serving context that trusts a CA."""
    pair = authority.sign("node", "node")
    trusting = Authentication(client_ca_file=authority.folder / "ca.crt")
    return serving_context(Serving(authentication=trusting), Pair(pair.certificate, pair.key))


def handshaken(client: ssl.SSLContext, served: ssl.SSLContext, again: ssl.SSLObject | None = None) -> ssl.SSLObject:
    """Connect in memory and close properly; returns the client's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(down, up, session=again.session if again else None)
    answering = served.wrap_bio(up, down, server_side=True)
    for step in (asking.do_handshake, answering.do_handshake) * 3 + (asking.unwrap, answering.unwrap) * 2:
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            step()
    if served.verify_mode is ssl.CERT_OPTIONAL:
        assert answering.getpeercert()  # a resumed session has its client certificate, too
    return asking


async def test_http_2_is_not_offered(tmp_path: Path) -> None:
    """A client that prefers it gets HTTP/1.1: nobody floods the API with pings, settings, or streams that are reset at once."""
    async with node_api(tmp_path) as api:
        context = client_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with connected(api, context) as connection:
            assert connection.selected_alpn_protocol() == "http/1.1"


async def test_a_pair_of_its_own_is_made_once(tmp_path: Path) -> None:
    """With the kubelet's file names, a key that only its owner can read, and the node's name."""
    async with node_api(tmp_path) as api:
        first = await shown(api)
    pki = tmp_path / "pki"
    assert {one.name for one in pki.iterdir()} == {SELF_SIGNED, SELF_SIGNED_KEY}
    assert stat.S_IMODE((pki / SELF_SIGNED_KEY).stat().st_mode) == 0o600
    names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    async with node_api(tmp_path) as api:
        assert (await shown(api)).serial_number == first.serial_number


@pytest.mark.parametrize("left", ["nothing", "only the key", "only the certificate", "an expired one", "a torn one"])
def test_what_a_crash_or_time_has_left_is_made_anew(tmp_path: Path, left: str) -> None:
    """Afterwards certificate and key always match."""
    cluster = ClusterSettings(kubeconfig=tmp_path / "k", cert_dir=tmp_path)
    pair = Pair(tmp_path / SELF_SIGNED, tmp_path / SELF_SIGNED_KEY)
    made_at = datetime.now(UTC) - (timedelta(days=400) if left == "an expired one" else timedelta(0))
    if left != "nothing":
        make_self_signed(pair, "n1", made_at)
    if left == "only the key":
        pair.certificate.unlink()
    if left == "only the certificate":
        pair.key.unlink()
    if left == "a torn one":
        pair.certificate.write_bytes(pair.certificate.read_bytes()[:100])
    assert serving_pair(cluster, "n1") == pair
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.certificate, pair.key)
    assert x509.load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc > datetime.now(UTC)


async def test_a_changed_pair_is_taken_and_open_connections_stay(tmp_path: Path) -> None:
    """Half of a new pair changes nothing; the complete pair is served without a restart."""
    authority = Authority.make(tmp_path / "pair")
    first = authority.sign("serving", "first", hosts=["n1"])
    async with node_api(tmp_path, serving=serving(first)) as api:
        before = await shown(api)
        assert before == certificate_of(first)
        async with connected(api, client_context()) as open_one:
            second = authority.sign("next", "second", hosts=["n1"])
            first.certificate.write_bytes(second.certificate.read_bytes())
            await asyncio.sleep(0.1)
            assert await shown(api) == before
            first.key.write_bytes(second.key.read_bytes())
            async with asyncio.timeout(PATIENCE):
                while await shown(api) == before:  # noqa: ASYNC110 - there is no event to await
                    await asyncio.sleep(0.02)
            assert await shown(api) == certificate_of(second)
            assert open_one.version() is not None


async def test_before_the_cluster_has_signed_every_handshake_fails(tmp_path: Path) -> None:
    """And none fails afterwards: serverTLSBootstrap."""
    async with node_api(tmp_path, serving=Serving(bootstrap=True)) as api:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown(api)
        signed = api.authority.sign("serving", "system:node:n1", ["system:nodes"], hosts=["n1"])
        both = tmp_path / "pki" / SERVER_CERTIFICATE
        both.parent.mkdir(exist_ok=True)
        both.with_suffix(".new").write_bytes(signed.certificate.read_bytes() + signed.key.read_bytes())
        both.with_suffix(".new").rename(both)
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    assert await shown(api) == certificate_of(signed)
                    return
                await asyncio.sleep(0.02)
