"""Who is asking: certificates, tokens and nobody, as the kubelet tells them apart, and what is asked of the API server for it."""

import asyncio
import hashlib
import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cluster.certificates import Authority, Signed
from tests.worker.api.node_api import node_api, until
from worker.api import review, seldom, server, tls
from worker.api.authentication import bearer_token, check_authentication
from worker.api.client_certificates import CertificateUnverified, ClientCertificates
from worker.api.kept import KEPT, Kept
from worker.api.users import NOBODY, User
from worker.settings.cluster import Authentication, Authorization, Serving
from worker.settings.kubelet_configuration import ConfigurationRefused

ALICE = {"username": "alice", "uid": "u1", "groups": ["dev"], "extra": {"Scopes.example.com/X": ["a", "b"]}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing between tries."""
    monkeypatch.setattr(review, "_FIRST_WAIT", timedelta(0))


async def test_a_user_is_passed_on_as_the_review_told_it(tmp_path: Path) -> None:
    """With the group of all who have authenticated; names of extras in lower case, as the API asks."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", token="t")).status == 200
        assert api.reviews.specs == [
            {"token": "t"},
            {
                "user": "alice",
                "uid": "u1",
                "groups": ["dev", "system:authenticated"],
                "extra": {"scopes.example.com/x": ["a", "b"]},
                "resourceAttributes": {
                    "verb": "get",
                    "version": "v1",
                    "resource": "nodes",
                    "subresource": "configz",
                    "name": "n1",
                },
            },
        ]


async def test_what_was_answered_is_kept(tmp_path: Path) -> None:
    """Yes and no, by token and by user; twenty at once ask once."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        answers = await asyncio.gather(*(api.ask("/configz", token="t") for _ in range(20)))
        assert {one.status for one in answers} == {200}
        assert api.reviews.asked == {"TokenReview": 1, "SubjectAccessReview": 1}
        for _ in range(2):
            assert (await api.ask("/pods", token="t")).status == 403
            assert (await api.ask("/pods", token="wrong")).status == 401
        assert api.reviews.asked == {"TokenReview": 2, "SubjectAccessReview": 3}  # pods and proxy


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_an_api_server_in_trouble_lets_nobody_in(tmp_path: Path, status: int) -> None:
    """A token is then no token (401), a right none that is known (503, what is away and what to do); nothing of it is kept."""
    async with node_api(tmp_path) as api:
        api.reviews.status = status
        api.reviews.users["t"] = ALICE
        assert (await api.ask("/configz", token="t")).text == "Unauthorized"
        assert api.reviews.asked == {"TokenReview": 5}
        me = api.authority.sign("me", "alice")
        refused = await api.ask("/configz", certificate=me)
        assert (refused.status, json.loads(refused.text)) == (
            503,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Authorization error (user=alice, verb=get, resource=nodes, subresource=configz): "
                "the API server is away; retry",
                "reason": "ServiceUnavailable",
                "code": 503,
            },
        )
        api.reviews.status = 0
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", token="t")).status == 200
        assert (await api.ask("/configz", certificate=me)).status == 200


async def test_a_review_that_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    """A node that may not review (403) does not learn it by repeating; who asks is told where the reason stands."""
    async with node_api(tmp_path) as api:
        api.reviews.status = 403
        assert (await api.ask("/configz", token="t")).status == 401
        refused = await api.ask("/configz", certificate=api.authority.sign("me", "alice"))
        assert refused.status == 503
        assert "does not review it, and this node's log says why; retry" in refused.text
        assert api.reviews.asked == {"TokenReview": 1, "SubjectAccessReview": 1}


async def test_a_client_that_vanishes_does_not_take_the_answer_along() -> None:
    """Others wait for the same review."""
    held, asked = asyncio.Event(), 0

    async def ask() -> tuple[str, timedelta]:
        nonlocal asked
        asked += 1
        await held.wait()
        return "alice", timedelta(minutes=1)

    kept: Kept[str] = Kept(10, lambda: 0.0)
    first, second = (asyncio.create_task(kept.get("t", ask)) for _ in range(2))
    await asyncio.sleep(0)  # both wait
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    held.set()
    assert (await second, asked, len(kept)) == ("alice", 1, 1)


async def test_a_flood_of_tokens_holds_up_no_known_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server gets so many reviews at a time, and those of rights have places of their own."""
    monkeypatch.setattr(review, "AT_ONCE", 3)
    async with node_api(tmp_path) as api:
        api.reviews.allow("alice", "get", "configz")
        api.reviews.held_kinds, api.reviews.held = {"TokenReview"}, asyncio.Event()
        flood = [asyncio.create_task(api.ask("/configz", token=f"t{one}")) for one in range(20)]
        await until(lambda: api.reviews.asked["TokenReview"] == 3)
        assert (await api.ask("/configz", certificate=api.authority.sign("me", "alice"))).status == 200
        assert api.reviews.asked["TokenReview"] == 3
        api.reviews.held.set()
        assert {one.status for one in await asyncio.gather(*flood)} == {401}


async def test_clients_that_vanish_leave_no_question_behind(tmp_path: Path) -> None:
    """Or whoever connects, shows any token and goes, would pile up reviews while the API server is slow."""
    async with node_api(tmp_path) as api:
        api.reviews.held = asyncio.Event()
        vanishing = [asyncio.create_task(api.ask("/configz", token=f"t{one}")) for one in range(50)]
        await until(lambda: len([one for one in asyncio.all_tasks() if one.get_name() == KEPT]) == len(vanishing))
        for one in vanishing:
            one.cancel()
        await asyncio.gather(*vanishing, return_exceptions=True)
        await until(lambda: not [one for one in asyncio.all_tasks() if one.get_name() == KEPT])
        api.reviews.held.set()


async def test_whoever_is_not_let_in_does_not_fill_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in a while, with the number of those left out before."""
    monkeypatch.setattr(seldom, "SELDOM", 3600.0)
    other = Authority.make(tmp_path / "other").sign("x", "admin")
    async with node_api(tmp_path) as api:
        with structlog.testing.capture_logs() as told:
            for _ in range(20):
                assert (await api.ask("/configz", certificate=other)).status == 401
    lines = [one for one in told if one["event"] == "A client certificate was refused"]
    assert [one["notTold"] for one in lines] == [0]


async def test_anonymous_is_for_those_who_show_nothing(tmp_path: Path) -> None:
    """Whoever shows what does not hold is refused, not taken for nobody."""
    authority = Authority.make(tmp_path / "authority")
    access = Authentication(anonymous=True, client_ca_file=authority.folder / "ca.crt")
    async with node_api(tmp_path, authentication=access) as api:
        api.reviews.allow(NOBODY.name, "get", "configz")
        assert (await api.ask("/configz")).status == 200
        assert api.reviews.specs[-1]["groups"] == ["system:unauthenticated"]
        assert (await api.ask("/configz", token="wrong")).status == 401
        other = Authority.make(tmp_path / "other").sign("x", "system:anonymous")
        assert (await api.ask("/configz", certificate=other)).status == 401


async def test_a_token_counts_beside_a_certificate_that_does_not(tmp_path: Path) -> None:
    """One credential that holds is enough, as in the kubelet."""
    async with node_api(tmp_path) as api:
        api.reviews.users["t"] = ALICE
        api.reviews.allow("alice", "get", "configz")
        other = Authority.make(tmp_path / "other").sign("x", "admin", ["system:masters"])
        assert (await api.ask("/configz", token="t", certificate=other)).status == 200


async def test_without_the_webhook_tokens_are_nothing(tmp_path: Path) -> None:
    """And nobody is asked about them."""
    async with node_api(tmp_path, authentication=Authentication(webhook=False, client_ca_file=tmp_path / "no")) as api:
        assert (await api.ask("/configz", token="t")).status == 401
        assert not api.reviews.asked


async def test_always_allow_asks_nobody_what_one_may(tmp_path: Path) -> None:
    """Authentication stays."""
    async with node_api(tmp_path, serving=Serving(authorization=Authorization(always_allow=True))) as api:
        assert (await api.ask("/configz")).status == 401
        assert (await api.ask("/configz", certificate=api.authority.sign("me", "me"))).status == 200
        assert not api.reviews.asked


def test_a_node_that_nobody_could_enter_is_refused() -> None:
    """As by the kubelet, before anything is served."""
    with pytest.raises(ConfigurationRefused, match="no way to authenticate"):
        check_authentication(Authentication(webhook=False))
    check_authentication(Authentication())


@pytest.mark.parametrize(
    ("header", "token"),
    [
        pytest.param("Bearer a", "a", id="a-token"),
        pytest.param("bearer a", "a", id="in-small-letters"),
        pytest.param("  Bearer a  ", "a", id="blanks-around"),
        pytest.param("Bearer a b", "a", id="more-words"),
        pytest.param("Bearer  a", "", id="two-blanks"),
        pytest.param("Bearer", "", id="none"),
        pytest.param("Basic a", "", id="another-way"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_bearer_token_is_read_as_the_kubelet_reads_it(header: str, token: str) -> None:
    """Rows of apiserver request/bearertoken."""
    assert bearer_token(header) == token


def test_groups_of_an_authenticated_user() -> None:
    """Once, and not for nobody."""
    assert User("a").authenticated().groups == ("system:authenticated",)
    assert User("a").authenticated().authenticated().groups == ("system:authenticated",)
    assert NOBODY.authenticated() is NOBODY


def test_a_changed_bundle_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    """A rotation of the cluster's CA needs no restart; half a file leaves the last good one."""
    first, second = Authority.make(tmp_path / "1", "one"), Authority.make(tmp_path / "2", "two")
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes((first.folder / "ca.crt").read_bytes())
    certificates = ClientCertificates(bundle)
    certificates.refresh()
    of_first, of_second = der(first.sign("a", "a")), der(second.sign("b", "b"))
    assert certificates.user([of_first]).name == "a"
    with pytest.raises(CertificateUnverified):
        certificates.user([of_second])
    for torn in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA"):
        bundle.write_bytes(torn)
        certificates.refresh()
        assert certificates.user([of_first]).name == "a"
    bundle.write_bytes((second.folder / "ca.crt").read_bytes())
    certificates.refresh()
    assert certificates.user([of_second]).name == "b"
    with pytest.raises(CertificateUnverified):
        certificates.user([of_first])


def der(signed: Signed) -> bytes:
    """Give a certificate as TLS sends it."""
    return x509.load_pem_x509_certificate(signed.certificate.read_bytes()).public_bytes(serialization.Encoding.DER)


class Chain:
    """An authority whose certificates have what each row gives them."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.make(folder)
        self.certificates = ClientCertificates(folder / "ca.crt")
        self.certificates.refresh()
        self.key = ec.generate_private_key(ec.SECP256R1())

    def builder(
        self, name: str, issuer: x509.Name | None = None, *, times: int = 1, uids: Sequence[str] = ()
    ) -> x509.CertificateBuilder:
        """Begin a good client's certificate, which may say its name again and again."""
        now = datetime.now(UTC)
        names = [x509.NameAttribute(NameOID.COMMON_NAME, name)] * times if name else []
        told = [x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), one) for one in uids]
        subject = x509.Name([*names, *told])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or self.authority.certificate.subject)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    def signed(self, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey | None = None) -> bytes:
        """End it."""
        return builder.sign(key or self.authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_what_is_no_client_s_certificate_counts_for_nothing(tmp_path: Path) -> None:
    """Each of them is refused for its own reason, never by an error."""
    chain = Chain(tmp_path / "ca")
    servers = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    middle = chain.signed(chain.builder("middle"))  # a client, no CA
    below = chain.signed(
        chain.builder("below", x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")])), chain.key
    )
    a_ca = x509.BasicConstraints(ca=True, path_length=None)
    of_servers = chain.signed(
        chain.builder("middle").add_extension(a_ca, critical=True).add_extension(servers, critical=False)
    )
    rows: dict[str, list[bytes]] = {
        "for servers only": [chain.signed(chain.builder("a").add_extension(servers, critical=False))],
        "no name": [chain.signed(chain.builder(""))],
        "signed by a client": [below, middle],
        "signed by a CA for servers only": [below, of_servers],
        "signed by itself under the CA's name": [chain.signed(chain.builder("a"), chain.key)],
        "no certificate": [b"\x30\x00"],
        "nothing": [b""],
        "a chain without end": [chain.signed(chain.builder("a"))] + [middle] * 50,
    }
    for what, sent in rows.items():
        with pytest.raises(CertificateUnverified):
            raise AssertionError(what, chain.certificates.user(sent))
    good = chain.signed(chain.builder("a"))
    now = datetime.now(UTC)
    with pytest.raises(CertificateUnverified) as refused:
        chain.certificates.user([chain.signed(chain.builder("x" * 60, times=500))], now + timedelta(days=1))
    assert len(str(refused.value)) < 1000  # it goes into the log
    assert chain.certificates.user([good], now).name == "a"
    for other in (now + timedelta(hours=2), now - timedelta(hours=2)):
        with pytest.raises(CertificateUnverified):
            chain.certificates.user([good], other)


def test_clients_of_clusters_as_they_are_found_count(tmp_path: Path) -> None:
    """An intermediate that is sent along, RSA keys, CN and O in any order, no names of hosts."""
    chain = Chain(tmp_path / "ca")
    middle_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")])
    middle = chain.signed(
        chain.builder("middle").add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    below = chain.signed(chain.builder("below", middle_name), chain.key)
    assert chain.certificates.user([below, middle]).name == "below"
    with pytest.raises(CertificateUnverified):
        chain.certificates.user([below])
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver-kubelet-client"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "two"),
        ]
    )
    rsa_key = rsa.generate_private_key(65537, 2048)
    now = datetime.now(UTC)
    of_kubeadm = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(chain.authority.certificate.subject)
        .public_key(rsa_key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    sent = chain.signed(of_kubeadm)
    known = {"authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(sent).hexdigest()}",)}
    assert chain.certificates.user([sent]) == User(
        "kube-apiserver-kubelet-client", groups=("system:masters", "two"), extra=known
    )


@pytest.mark.parametrize(("uids", "uid"), [((), ""), (("u1",), "u1"), (("u1", "u2"), None)])
def test_the_uid_of_a_certificate(tmp_path: Path, uids: tuple[str, ...], uid: str | None) -> None:
    """One, or none; of several nobody knows whose it is."""
    chain = Chain(tmp_path / "ca")
    sent = [chain.signed(chain.builder("a", uids=uids))]
    if uid is None:
        with pytest.raises(CertificateUnverified, match="UID"):
            chain.certificates.user(sent)
    else:
        assert chain.certificates.user(sent).uid == uid


async def test_where_openssl_judges_itself_a_wrong_certificate_ends_in_the_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stricter, and a right one still counts."""
    monkeypatch.setattr(tls, "_without_judgement", lambda _context: False)
    async with node_api(tmp_path) as api:
        mine, other = api.authority.sign("me", "alice"), Authority.make(tmp_path / "other").sign("x", "alice")
        api.reviews.allow("alice", "get", "configz")
        assert (await api.ask("/configz", certificate=mine)).status == 200
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await api.ask("/configz", certificate=other)
        assert (await api.ask("/configz")).status == 401


def test_this_interpreter_lets_the_handshake_pass() -> None:
    """The versions that we name are those that we were tried with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    assert tls._without_judgement(context)
    not_asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert not tls._without_judgement(not_asking)


async def test_the_ca_file_is_read_again_while_serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open connections are judged by the new one, too: each request is."""
    monkeypatch.setattr(server, "FILES_LOOKED_AT", timedelta(milliseconds=20))
    async with node_api(tmp_path) as api:
        api.reviews.allow("alice", "get", "configz")
        mine = api.authority.sign("me", "alice")
        assert (await api.ask("/configz", certificate=mine)).status == 200
        Authority.make(api.authority.folder, "a new one")
        async with asyncio.timeout(10):
            while (await api.ask("/configz", certificate=mine)).status != 401:  # noqa: ASYNC110 - nobody tells us
                await asyncio.sleep(0.02)
