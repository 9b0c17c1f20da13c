"""Is only the cluster of the token and of the CA hash believed, whatever a server answers?"""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from activities.clients.api_server.errors import ApiAway
from worker.joining import cluster_info
from worker.joining.cluster_info import is_signed_for, pinned, refuse_another, same_certificates, signed_by
from worker.joining.discovery import Discovery
from worker.joining.refusal import ClusterNotProven, WrongRequest
from worker.joining.request import BootstrapToken, ca_hashes

TOKEN: Final = BootstrapToken.parse("abcdef.0123456789abcdef")
SERVER: Final = "https://10.0.0.1:6443"
_KEEP: Final = object()


def authority(name: str = "kubernetes") -> tuple[bytes, str]:
    """Make a CA; returns its certificate and the hash of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    info = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return made.public_bytes(Encoding.PEM), hashlib.sha256(info).hexdigest()


CA, HASH = authority()
OTHER_CA, OTHER_HASH = authority("other")


def cluster(server: Any = SERVER, ca: Any = CA) -> dict[str, Any]:
    """Build a cluster of a kubeconfig; without a CA if it is None."""
    given = {"certificate-authority-data": base64.b64encode(ca).decode() if isinstance(ca, bytes) else ca}
    return {"name": "", "cluster": {"server": server} | (given if ca is not None else {})}


def kubeconfig(*clusters: Any) -> str:
    """Build the document that is signed."""
    return json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": list(clusters)})


def published(document: Any, token: BootstrapToken = TOKEN, signature: Any = _KEEP) -> dict[str, Any]:
    """Build cluster-info with a right signature, or the given one."""
    right = cluster_info._signature(document, token) if signature is _KEEP else signature
    return {"data": {"kubeconfig": document, f"jws-kubeconfig-{token.id}": right}}


GOOD: Final = kubeconfig(cluster())


def test_the_signature_is_that_of_kubernetes() -> None:
    """The vector of k8s.io/cluster-bootstrap token/jws/jws_test.go."""
    content = "Hello from the other side. I must have called a thousand times."
    made = cluster_info._signature(content, BootstrapToken("joshua", "my voice is my passcode"))
    assert made == "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"


def test_a_signed_document_is_read() -> None:
    """Address and CA are those of its cluster."""
    found = signed_by(published(GOOD), TOKEN)
    assert (found.server, found.authority, found.kubeconfig) == (SERVER, CA, GOOD)


OTHER_SECRET: Final = BootstrapToken.parse("abcdef.fedcba9876543210")
OTHER_ID: Final = BootstrapToken.parse("fedcba.0123456789abcdef")
BOMB: Final = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)
)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param({}, "no kubeconfig", id="an-empty-object"),
        pytest.param({"data": []}, "no kubeconfig", id="data-that-is-a-list"),
        pytest.param({"data": {"kubeconfig": 7, "jws-kubeconfig-abcdef": "x"}}, "no kubeconfig", id="a-number"),
        pytest.param({"data": {"kubeconfig": GOOD}}, "no signature by the token abcdef", id="no-signature"),
        pytest.param(published(GOOD, OTHER_ID), "no signature by the token abcdef", id="another-token-id"),
        pytest.param(published(GOOD, OTHER_SECRET), "is not by the token", id="another-secret"),
        pytest.param(published(GOOD, signature="x" * 100_000), "is not by the token", id="a-long-signature"),
        pytest.param(published(GOOD, signature="é\ud800"), "is not by the token", id="a-signature-that-is-no-text"),
        pytest.param(published(GOOD, signature=["x"]), "no signature", id="a-signature-that-is-a-list"),
        pytest.param(
            published(kubeconfig(cluster("https://evil")), signature=cluster_info._signature(GOOD, TOKEN)),
            "is not by the token",
            id="a-signature-of-another-document",
        ),
        pytest.param(published("\ud800", signature="x"), "is not text", id="a-document-that-is-no-text"),
        pytest.param(published("][", TOKEN), "not one YAML or JSON document", id="garbage"),
        pytest.param(published(BOMB), "expands to more than", id="a-document-that-explodes"),
        pytest.param(published("[" * 100_000), "nested deeper", id="a-deep-document"),
        pytest.param(published("x" * 8), "not a mapping", id="text"),
        pytest.param(published(kubeconfig()), "has 0 clusters", id="no-cluster"),
        pytest.param(published(kubeconfig(cluster(), cluster())), "has 2 clusters", id="two-clusters"),
        pytest.param(published(kubeconfig("x")), "must begin with https", id="a-cluster-that-is-text"),
        pytest.param(published(kubeconfig(cluster("http://10.0.0.1"))), "must begin with https", id="no-tls"),
        pytest.param(published(kubeconfig(cluster(7))), "must begin with https", id="a-server-that-is-a-number"),
        pytest.param(published(kubeconfig(cluster(ca=None))), "no certificate-authority-data", id="no-ca"),
        pytest.param(published(kubeconfig(cluster(ca="?"))), "no base64", id="a-ca-that-is-no-base64"),
    ],
)
def test_an_answer_that_proves_nothing_is_refused(answer: dict[str, Any], why: str) -> None:
    """Nothing of it is used, and the message says why."""
    with pytest.raises(ClusterNotProven, match=why):
        signed_by(answer, TOKEN)


@pytest.mark.parametrize(
    ("bundle", "wanted", "trusted"),
    [
        pytest.param(CA, {HASH}, CA, id="the-ca"),
        pytest.param(CA, {HASH, OTHER_HASH}, CA, id="two-hashes"),
        pytest.param(OTHER_CA + CA, {HASH}, CA, id="only-the-one-with-the-hash-of-a-bundle"),
        pytest.param(OTHER_CA + CA, {HASH, OTHER_HASH}, OTHER_CA + CA, id="both-of-a-bundle"),
    ],
)
def test_only_certificates_with_the_hash_are_trusted(bundle: bytes, wanted: set[str], trusted: bytes) -> None:
    """A CA that was added to the bundle is not."""
    assert pinned(bundle, frozenset(wanted)) == trusted


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        pytest.param(OTHER_CA, f"has sha256:{OTHER_HASH}", id="another-ca"),
        pytest.param(b"garbage", "cannot be read", id="garbage"),
        pytest.param(CA * 65, "has 65 certificates", id="too-many"),
    ],
)
def test_another_ca_is_refused(bundle: bytes, why: str) -> None:
    """By its hash."""
    with pytest.raises(ClusterNotProven, match=why):
        pinned(bundle, frozenset({HASH}))


def test_certificates_are_compared_not_their_text() -> None:
    """Comments and blank lines in ca.crt are no difference; another certificate is."""
    assert same_certificates(CA, b"# our CA\n\n" + CA + b"\n")
    assert not same_certificates(CA, CA + OTHER_CA)


class Server:
    """Plays the cluster's answers, one a read; the last one is repeated."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.trusted: list[bytes | None] = []

    async def read(self, server: str, ca: bytes | None, within: timedelta) -> dict[str, Any]:
        """Give the next answer."""
        assert (server, within.total_seconds()) == (SERVER, 10)
        self.trusted.append(ca)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        found: dict[str, Any] = answer
        return found

    def discovery(self, wanted: Sequence[str] = (HASH,)) -> Discovery:
        """Return a discovery that has 0.3 s."""
        return Discovery(SERVER, TOKEN, frozenset(wanted), self.read, timedelta(seconds=0.3), timedelta(milliseconds=1))


async def test_the_second_read_trusts_only_the_proven_ca() -> None:
    """The first one trusts nothing."""
    server = Server(published(GOOD))
    assert (await server.discovery().run()).authority == CA
    assert server.trusted == [None, CA]


async def test_a_server_that_starts_and_a_late_signature_are_waited_for() -> None:
    """Both take some seconds in a new cluster."""
    server = Server(ApiAway("no answer"), {"data": {"kubeconfig": GOOD}}, published(GOOD))
    await server.discovery().run()
    assert server.trusted == [None, None, None, CA]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        pytest.param([ApiAway("nobody there")], "nobody there .tried for 0.3 s", id="no-answer"),
        pytest.param([{"data": {"kubeconfig": GOOD}}], "no signature by the token", id="never-signed"),
        pytest.param([published(GOOD, OTHER_SECRET)], "is not by the token", id="signed-by-another"),
        pytest.param([published(kubeconfig(cluster(ca=OTHER_CA)))], "not that of --ca-hash", id="another-ca"),
        pytest.param([published(GOOD), ApiAway("the certificate is not signed")], "is not signed", id="tls-of-another"),
        pytest.param(
            [published(GOOD), published(kubeconfig(cluster("https://10.0.0.2:6443")))],
            "was another one",
            id="changed-between-the-reads",
        ),
    ],
)
async def test_a_server_that_is_not_the_cluster_is_refused(answers: list[Any], why: str) -> None:
    """Within the time, with the reason."""
    with pytest.raises(ClusterNotProven, match=why):
        await Server(*answers).discovery().run()


def test_the_second_answer_may_have_other_signatures() -> None:
    """Tokens come and go meanwhile; only what is signed must be the same."""
    refuse_another(signed_by(published(GOOD), TOKEN), {"data": {"kubeconfig": GOOD}})
    assert not is_signed_for({"data": {"kubeconfig": GOOD}}, TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("abcdef", id="only-an-id"),
        pytest.param("abcdef.0123456789abcde", id="a-short-secret"),
        pytest.param("ABCDEF.0123456789abcdef", id="capitals"),
        pytest.param("abcdef.0123456789abcdef.x", id="three-parts"),
    ],
)
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    """It may be another secret."""
    with pytest.raises(WrongRequest, match="not of the form") as refused:
        BootstrapToken.parse(text)
    assert not text or text.lower()[:6] not in str(refused.value)
    assert TOKEN.secret not in repr(TOKEN)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param([], "is missing", id="none"),
        pytest.param(["sha256:12"], "64 hexadecimal", id="short"),
        pytest.param([f"sha512:{HASH}"], "64 hexadecimal", id="another-kind"),
        pytest.param([HASH], "64 hexadecimal", id="without-its-kind"),
    ],
)
def test_what_is_no_hash_is_refused(given: list[str], why: str) -> None:
    """With the form that it must have."""
    with pytest.raises(WrongRequest, match=why):
        ca_hashes(given)
    assert ca_hashes([f"SHA256:{HASH.upper()}"]) == {HASH}
