"""Which client certificates are accepted, in the handshake and with each request?"""

import asyncio
import dataclasses
import hashlib
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster.certificates import Authority, Signed
from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.node_api import NodeApi, client_context, node_api
from worker.api import server
from worker.api.access import authentication
from worker.api.access.client_certificates import CertificateRefused, user_of
from worker.api.access.serving_certificate import Pair
from worker.api.access.tls import ReloadingContext, serving_context
from worker.api.access.users import User
from worker.settings.cluster import Authentication, Serving

NOW = datetime.now(UTC)
A_CA = x509.BasicConstraints(ca=True, path_length=None)
FOR_CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
FOR_SERVERS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


def named(name: str, *organizations: str, uids: Sequence[str] = ()) -> x509.Name:
    """Return a subject with its parts in arbitrary order."""
    parts = [(NameOID.COMMON_NAME, name)] if name else []
    parts += [(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    parts += [(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), one) for one in uids]
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


@dataclasses.dataclass
class Made:
    """A certificate of a test, its key and its issuer."""

    certificate: x509.Certificate
    key: Key

    @property
    def der(self) -> bytes:
        """Return it as DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def written(self, folder: Path, *along: "Made") -> Signed:
        """Write it with its chain and its key."""
        signed = Signed(folder / "mine.crt", folder / "mine.key")
        chain = [one.certificate.public_bytes(serialization.Encoding.PEM) for one in (self, *along)]
        signed.certificate.write_bytes(b"".join(chain))
        encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        signed.key.write_bytes(self.key.private_bytes(*encoding))
        return signed


def made(
    subject: x509.Name,
    issuer: Made | None,
    *extensions: x509.ExtensionType,
    key: Key | None = None,
    ends: datetime = NOW + timedelta(hours=1),
) -> Made:
    """Return a certificate, signed by its issuer or self-signed."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=3))
        .not_valid_after(ends)
    )
    for one in extensions:
        builder = builder.add_extension(one, critical=isinstance(one, x509.BasicConstraints))
    signer = issuer.key if issuer else key
    return Made(builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()), key)


def judging(folder: Path, *trusted: Made) -> ssl.SSLContext:
    """Return a serving context that trusts these CAs."""
    bundle = folder / "clients.crt"
    bundle.write_bytes(b"".join(one.certificate.public_bytes(serialization.Encoding.PEM) for one in trusted))
    pair = Authority.make(folder / "serving").sign("node", "node")
    serving = Serving(authentication=Authentication(client_ca_file=bundle))
    return serving_context(serving, Pair(pair.certificate, pair.key))


def let_in(served: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLObject:
    """Do the handshake in memory and return the node's side.

    Raises SSLCertVerificationError after the client has read an alert.
    """
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking, answering = client.wrap_bio(down, up, session=session), served.wrap_bio(up, down, server_side=True)

    def step(side: ssl.SSLObject) -> bool:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    try:
        while not all([step(asking), step(answering)]):
            pass
    except ssl.SSLCertVerificationError:
        with pytest.raises(ssl.SSLError, match="alert"):
            asking.read()
        raise
    return answering


@pytest.fixture(scope="module")
def ca() -> Made:
    """Return the clients' CA."""
    return made(named("clients"), None, A_CA)


def wrong_ones(ca: Made) -> dict[str, list[Made]]:
    """Yield invalid certificates with the chain that is sent."""
    a_client, of_servers = made(named("middle"), ca), made(named("middle"), ca, A_CA, FOR_SERVERS)
    other = made(named("clients"), None, A_CA)
    return {
        "for servers only": [made(named("a"), ca, FOR_SERVERS)],
        "signed by a client": [made(named("a"), a_client), a_client],
        "signed by a CA for servers only": [made(named("a"), of_servers), of_servers],
        "signed by itself": [made(named("a"), None)],
        "signed by another one of the CA's name": [made(named("a"), other)],
        "expired": [made(named("a"), ca, ends=NOW - timedelta(hours=1))],
        "an intermediate that is not sent": [made(named("a"), made(named("middle"), ca, A_CA))],
    }


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_is_no_client_s_certificate_ends_the_handshake(tmp_path: Path, ca: Made, version: ssl.TLSVersion) -> None:
    """With an alert, in each TLS version."""
    served = judging(tmp_path, ca)
    for what, (leaf, *along) in wrong_ones(ca).items():
        client = client_context(leaf.written(tmp_path, *along))
        client.maximum_version = version
        with pytest.raises(ssl.SSLCertVerificationError):
            raise AssertionError(what, let_in(served, client))


def test_clients_of_clusters_as_they_are_found_count(tmp_path: Path, ca: Made) -> None:
    """Any signature algorithm, intermediates that are sent or trusted themselves, RSA and Ed25519 keys."""
    middle = made(named("middle"), ca, x509.BasicConstraints(ca=True, path_length=0))
    by_ed25519 = made(named("other"), None, A_CA, key=ed25519.Ed25519PrivateKey.generate())
    rsa_key = rsa.generate_private_key(65537, 2048)
    of_kubeadm = made(
        named("kube-apiserver-kubelet-client", "system:masters"),
        ca,
        FOR_CLIENTS,
        x509.BasicConstraints(ca=False, path_length=None),
        key=rsa_key,
    )
    below = made(named("below"), middle)
    rows: dict[str, tuple[Made, list[Made]]] = {
        "kubeadm's": (ca, [of_kubeadm]),
        "an intermediate is sent along": (ca, [below, middle]),
        "the intermediate alone is trusted": (middle, [below]),
        "an Ed25519 key": (ca, [made(named("a"), ca, key=ed25519.Ed25519PrivateKey.generate())]),
        "a CA with an Ed25519 key": (by_ed25519, [made(named("a"), by_ed25519)]),
    }
    for what, (trusted, (leaf, *along)) in rows.items():
        node = let_in(judging(tmp_path, trusted), client_context(leaf.written(tmp_path, *along)))
        assert node.getpeercert(binary_form=True) == leaf.der, what


def test_nobody_has_to_come_with_a_certificate(tmp_path: Path, ca: Made) -> None:
    """A token may be used instead."""
    assert let_in(judging(tmp_path, ca), client_context()).getpeercert() is None


async def test_an_expired_certificate_ends_with_its_connection_at_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request checks it."""

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Tomorrow":
            del tz
            return cls.fromtimestamp(datetime.now(UTC).timestamp() + timedelta(days=2).total_seconds(), UTC)

    async with node_api(tmp_path) as api:
        api.reviews.allow("alice", "get", "configz")
        connector = aiohttp.TCPConnector(ssl=client_context(api.authority.sign("me", "alice")), limit=1)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{api.port}", connector=connector) as session:
            async with session.get("/configz") as answer:
                assert answer.status == 200
            monkeypatch.setattr(authentication, "datetime", Tomorrow)
            async with session.get("/configz") as answer:
                assert (answer.status, await answer.text()) == (401, "Unauthorized")


def test_the_user_of_a_certificate(ca: Made) -> None:
    """CN and O, and the certificate's fingerprint."""
    one = made(named("alice", "system:masters", "two"), ca)
    known = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(one.der).hexdigest()}",)}
    assert user_of(one.der, NOW) == User("alice", groups=("system:masters", "two"), extra=known)
    assert user_of(made(named("alice", uids=["u1"]), ca).der, NOW).uid == "u1"


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        pytest.param(named("", "dev"), "no common name", id="nobody"),
        pytest.param(named("a", uids=["u1", "u2"]), "UID", id="two-users"),
    ],
)
def test_a_certificate_that_names_nobody_counts_for_nothing(ca: Made, subject: x509.Name, why: str) -> None:
    """The connection is accepted and each request refused; a malformed certificate raises nothing else."""
    with pytest.raises(CertificateRefused, match=why):
        user_of(made(subject, ca).der, NOW)
    with pytest.raises(CertificateRefused, match="can't be read"):
        user_of(b"\x30\x00", NOW)


def test_a_changed_bundle_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    """A rotation of the cluster's CA needs no restart.

    With an incomplete file the last good one stays, and it is logged once.
    """
    first, second = Authority.make(tmp_path / "1", "one"), Authority.make(tmp_path / "2", "two")
    bundle, pair = tmp_path / "ca.crt", first.sign("node", "node")
    bundle.write_bytes((first.folder / "ca.crt").read_bytes())
    serving = Serving(authentication=Authentication(client_ca_file=bundle))
    renewed = ReloadingContext(serving, lambda: Pair(pair.certificate, pair.key))
    assert not renewed.refresh()
    of_first, of_second = client_context(first.sign("a", "a")), client_context(second.sign("b", "b"))
    for torn in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA"):
        bundle.write_bytes(torn)
        with structlog.testing.capture_logs() as told:
            assert [renewed.refresh(), renewed.refresh()] == [False, False]
        assert [(str(bundle) in one["error"], one["inUse"]) for one in told] == [(True, "the ones before")]
        let_in(renewed.context, of_first)
        with pytest.raises(ssl.SSLCertVerificationError):
            let_in(renewed.context, of_second)
    bundle.write_bytes((second.folder / "ca.crt").read_bytes())
    assert [renewed.refresh(), renewed.refresh()] == [True, False]
    let_in(renewed.context, of_second)
    with pytest.raises(ssl.SSLCertVerificationError):
        let_in(renewed.context, of_first)


async def opened(api: NodeApi, certificate: Signed) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection."""
    context = client_context(certificate)
    return await asyncio.open_connection("127.0.0.1", api.port, ssl=context, server_hostname="")


async def test_a_new_ca_ends_what_the_old_one_has_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections at once, others after their answer; new ones are verified by it."""
    monkeypatch.setattr(server, "CERTIFICATES_CHECKED_EVERY", timedelta(milliseconds=20))
    async with node_api(tmp_path) as api:
        api.reviews.allow("alice", "get", "configz")
        mine = api.authority.sign("me", "alice")
        (idle, to_idle), (busy, to_busy) = await opened(api, mine), await opened(api, mine)
        api.reviews.held = asyncio.Event()
        to_busy.write(b"GET /configz HTTP/1.1\r\nHost: n\r\n\r\n")
        await until(lambda: api.reviews.asked["SubjectAccessReview"] == 1)
        Authority.make(api.authority.folder, "a new one")
        async with asyncio.timeout(PATIENCE):
            assert await idle.read() == b""
            api.reviews.held.set()
            assert (await busy.read()).startswith(b"HTTP/1.1 200 OK")
            reader, writer = await opened(api, mine)
            with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
                await reader.read()
        for one in (to_idle, to_busy, writer):
            one.transport.abort()
