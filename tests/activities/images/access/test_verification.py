"""Who may use an image that is there? The rows are the kubelet's (pullmanager/image_pull_manager_test.go)."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from activities.images.access.record_format import LONG_AGO, AccountRight, PulledRecord, Rights, SecretRight
from activities.images.access.verification import (
    MOST_REMEMBERED,
    Known,
    Standing,
    Verification,
    VerificationPolicy,
    judge,
    standing,
    why_denied,
)

IMAGE = "docker.io/testing/test:latest"
NAME = "docker.io/testing/test"
PRELOADED = Verification()
NEVER = Verification(VerificationPolicy.NEVER)
ALWAYS = Verification(VerificationPolicy.ALWAYS)
SECRET = SecretRight("default", "pull-secret", "testsecretuid", "testsecrethash")
BY_SECRET = Rights((SECRET,))
ACCOUNT = AccountRight("n", "sa", "u")
EARLIER = AccountRight("a-ns", "sa", "u")
NOW = datetime(2024, 10, 21, 12, 26, 40, tzinfo=UTC)


def recorded(rights: Rights | None, name: str = NAME) -> Known:
    """Know of a record of one name."""
    return Known(PulledRecord("ref", {name: rights} if rights else {}))


@pytest.mark.parametrize(
    ("known", "how"),
    [
        pytest.param(recorded(BY_SECRET, "r.io/own/app"), "pulled by another name", id="another-tenants-name"),
        pytest.param(recorded(BY_SECRET), f"pulled with a login for {NAME}", id="another-secret"),
        pytest.param(recorded(Rights(everyone=True), "r.io/app"), "pulled by another name", id="public-there"),
        pytest.param(recorded(None), "and it is unknown with which credentials it was pulled", id="nobody-s"),
        pytest.param(
            Known(intended=True), "and it is unknown with which credentials it was pulled", id="only-an-intent"
        ),
        pytest.param(Known(broken=True), "and the record of who pulled it cannot be read", id="a-broken-record"),
        pytest.param(Known(), "and nothing says who pulled it", id="preloaded-and-always-verified"),
    ],
)
def test_why_an_image_that_is_there_does_not_do(known: Known, how: str) -> None:
    """Never the name of a secret, nor that of another tenant's repository."""
    words = "this pod has to show a right to it, by a login that the registry takes"
    assert why_denied(f"{NAME}:1", known) == f"the image is on this node, {how}: {words}"


@pytest.mark.parametrize(
    ("verification", "known", "expected"),
    [
        pytest.param(PRELOADED, recorded(BY_SECRET), Standing.ASK_LOGINS, id="recorded-with-a-secret"),
        pytest.param(PRELOADED, recorded(BY_SECRET, "docker.io/testing/different"), Standing.DENIED, id="another-name"),
        pytest.param(PRELOADED, recorded(None), Standing.DENIED, id="an-empty-mapping"),
        pytest.param(PRELOADED, Known(), Standing.ALLOWED, id="preloaded"),
        pytest.param(ALWAYS, Known(), Standing.DENIED, id="preloaded-and-always-verified"),
        pytest.param(PRELOADED, Known(intended=True), Standing.DENIED, id="only-an-intent"),
        pytest.param(NEVER, Known(intended=True), Standing.ALLOWED, id="only-an-intent-and-never-verified"),
        pytest.param(NEVER, recorded(BY_SECRET), Standing.ALLOWED, id="recorded-and-never-verified"),
        pytest.param(PRELOADED, recorded(Rights(everyone=True)), Standing.ALLOWED, id="pulled-by-anybody"),
        pytest.param(PRELOADED, recorded(Rights()), Standing.DENIED, id="recorded-with-no-right"),
        pytest.param(PRELOADED, Known(broken=True), Standing.DENIED, id="a-broken-record"),
        pytest.param(NEVER, Known(broken=True), Standing.DENIED, id="a-broken-record-whatever-the-policy"),
        pytest.param(
            PRELOADED,
            recorded(Rights((), (ACCOUNT,))),
            Standing.ASK_LOGINS,
            id="recorded-with-a-service-account",
        ),
    ],
)
def test_without_the_pods_logins(verification: Verification, known: Known, expected: Standing) -> None:
    """What the records alone tell; a pod of a public image needs no more."""
    assert standing(verification, IMAGE, known) is expected


@pytest.mark.parametrize(
    ("secrets", "allowed", "remembered"),
    [
        pytest.param([SECRET], True, None, id="its-exact-secret"),
        pytest.param([], False, None, id="no-secrets"),
        pytest.param(
            [SecretRight("default", "pull-secret", "testsecretuid", "different")],
            True,
            SecretRight("default", "pull-secret", "testsecretuid", "different"),
            id="the-same-secret-with-another-login",
        ),
        pytest.param(
            [SecretRight("default", "pull-secret", "another uid", "different")], False, None, id="another-uid"
        ),
        pytest.param(
            [SecretRight("ns", "pull-secret", "testsecretuid", "different")], False, None, id="another-secret"
        ),
        pytest.param(
            [SecretRight("ns", "pull-secret", "testsecretuid", "testsecrethash")],
            True,
            SecretRight("ns", "pull-secret", "testsecretuid", "testsecrethash"),
            id="another-secret-with-the-same-login",
        ),
        pytest.param([SecretRight("ns", "other", "", "x"), SECRET], True, None, id="one-of-two"),
    ],
)
def test_by_the_pods_secrets(secrets: Sequence[SecretRight], allowed: bool, remembered: SecretRight | None) -> None:
    """The same login, or the same secret; what is new of that is remembered."""
    judged = judge(BY_SECRET, Rights(tuple(secrets)))
    assert judged.allowed is allowed
    assert judged.remember == (Rights((remembered,)) if remembered else None)


@pytest.mark.parametrize(
    ("account", "allowed"),
    [
        pytest.param(AccountRight("n", "sa", "u"), True, id="its-account"),
        pytest.param(AccountRight("n", "sa", "later"), False, id="a-later-account-of-the-name"),
        pytest.param(AccountRight("other", "sa", "u"), False, id="of-another-namespace"),
    ],
)
def test_by_the_pods_service_account(account: AccountRight, allowed: bool) -> None:
    """The same object, by whose token the image was pulled; nothing is remembered."""
    judged = judge(Rights((), (ACCOUNT,)), Rights((), (account,)))
    assert judged.allowed is allowed
    assert judged.remember is None


@pytest.mark.parametrize(("namespace", "allowed"), [("default", True), ("differentns", False)])
def test_a_record_without_a_hash(namespace: str, allowed: bool) -> None:
    """Two empty hashes are not the same login, but it may be the same secret."""
    broken = Rights((SecretRight("default", "pull-secret", "testsecretuid", ""),))
    own = SecretRight(namespace, "pull-secret", "testsecretuid", "")
    assert judge(broken, Rights((own,))).allowed is allowed


def test_a_secret_without_a_uid_is_known_by_its_login_alone() -> None:
    """One from a folder may be another under the same name."""
    rights = Rights((SecretRight("default", "pull", "", "a"),))
    assert judge(rights, Rights((SecretRight("default", "pull", "", "a"),))).allowed
    assert not judge(rights, Rights((SecretRight("default", "pull", "", "b"),))).allowed


def test_a_full_record_grows_no_more() -> None:
    """The same login is still the right one; the same secret with another login has to show it."""
    many = Rights(tuple(SecretRight("default", f"s{number}", "u", "h") for number in range(MOST_REMEMBERED)))
    same_login = judge(many, Rights((SecretRight("ns", "x", "u", "h"),)))
    assert same_login.allowed
    assert same_login.remember is None
    assert not judge(many, Rights((SecretRight("default", "s1", "u", "new"),))).allowed


@pytest.mark.parametrize(
    ("image", "required"),
    [
        ("docker.io/testing/test:latest", False),
        ("docker.io/testing/test", False),
        ("docker.io/testing/test2", True),
        ("registry.io/team/app:1", False),
        ("registry.io/team", True),
        ("registry.io/teams/app", True),
        (f"registry.io/team/app@sha256:{'a' * 64}", False),
        ("NOT AN IMAGE", True),
    ],
)
def test_an_allowlist(image: str, required: bool) -> None:
    """Names without tags, or all below one; however it came onto the node."""
    listed = ("docker.io/testing/test", "registry.io/team/*")
    policy = Verification(VerificationPolicy.NEVER_ALLOWLISTED, listed)
    assert [policy.is_required(image, pulled_here=here) for here in (True, False)] == [required, required]


OTHER = SecretRight("a-ns", "a", "u", "h")
NEWER = SecretRight("default", "pull-secret", "testsecretuid", "newer")


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        pytest.param(None, BY_SECRET, BY_SECRET, id="the-first"),
        pytest.param(BY_SECRET, Rights((OTHER,)), Rights((OTHER, SECRET)), id="one-more-in-order"),
        pytest.param(BY_SECRET, Rights((NEWER,)), Rights((NEWER,)), id="a-newer-login-of-the-same-secret"),
        pytest.param(BY_SECRET, Rights(everyone=True), Rights(everyone=True), id="then-pulled-by-anybody"),
        pytest.param(BY_SECRET, BY_SECRET, None, id="nothing-new"),
        pytest.param(BY_SECRET, Rights(), None, id="no-right-at-all"),
        pytest.param(BY_SECRET, None, None, id="nobody-knows"),
        pytest.param(Rights(everyone=True), BY_SECRET, None, id="everybody-s-stays-everybody-s"),
        pytest.param(Rights((), (ACCOUNT,)), BY_SECRET, Rights((SECRET,), (ACCOUNT,)), id="beside-a-service-account"),
        pytest.param(BY_SECRET, Rights((), (ACCOUNT,)), Rights((SECRET,), (ACCOUNT,)), id="a-service-account"),
        pytest.param(Rights((), (ACCOUNT,)), Rights((), (EARLIER,)), Rights((), (EARLIER, ACCOUNT)), id="another-one"),
        pytest.param(Rights((), (ACCOUNT,)), Rights((), (ACCOUNT,)), None, id="the-same-one"),
    ],
)
def test_merging(before: Rights | None, new: Rights | None, after: Rights | None) -> None:
    """A record changes, and says when, only for what is new (pulledRecordMergeNewCreds)."""
    record = PulledRecord("ref", {NAME: before} if before else {}, LONG_AGO)
    merged = record.merged(NAME, new, NOW)
    if after is None:
        assert merged is record
    else:
        assert merged.rights[NAME] == after
        assert [one.hash for one in merged.rights[NAME].secrets] == [one.hash for one in after.secrets]
        assert merged.updated_at == NOW
