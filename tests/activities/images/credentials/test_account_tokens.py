"""Do credential providers get the token of a pod's service account, as the kubelet's do, and nobody else an answer to it?"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.images.credentials.account_tokens import AskingPod, TokenAttributes
from activities.images.credentials.keyring import AccountSource
from activities.images.credentials.provider_exec import ProviderFailed, ProviderProgram
from activities.images.credentials.providers import CredentialProvider, collect_logins
from activities.objects.objects import ObjectKind
from activities.objects.tokens import BoundPod, NoTokens, ServiceAccountToken, TokenSpec
from tests.activities.stored_objects import ObjectsInMemory

V1 = "credentialprovider.kubelet.k8s.io/v1"
REPOSITORY = "registry.io/team/app"
POD = BoundPod("default", "web", "pod-uid")
ROLE, ZONE = "registry.io/role", "registry.io/zone"
ATTRIBUTES = TokenAttributes("registry", requires_account=True, optional_annotations=(ROLE,))


class Tokens:
    """Issues one token for each pod and account, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[TokenSpec] = []

    async def token(self, spec: TokenSpec) -> ServiceAccountToken:
        """Issue it."""
        self.asked.append(spec)
        now = datetime.now(UTC)
        pod = spec.pod.name if spec.pod else ""
        return ServiceAccountToken(f"canary-{pod}-{spec.service_account}", now, now + timedelta(hours=1))


@pytest.fixture
def asking() -> AskingPod:
    """Let a pod ask whose account has two annotations."""
    objects = ObjectsInMemory()
    annotations = {ROLE: "puller", ZONE: "a"}
    objects.put(ObjectKind.SERVICE_ACCOUNTS, "robot", {"metadata": {"uid": "sa-uid", "annotations": annotations}})
    objects.put(ObjectKind.SERVICE_ACCOUNTS, "plain", {"metadata": {"uid": "plain-uid"}})
    return AskingPod(POD, "robot", objects, Tokens())


@pytest.fixture
def provider(tmp_path: Path) -> CredentialProvider:
    """Make a provider that keeps each request as a line, with its arguments and environment, and gives one login."""
    return made(tmp_path, ATTRIBUTES)


def made(tmp_path: Path, attributes: TokenAttributes, password: str = "pw") -> CredentialProvider:
    """Write a provider's script."""
    auth = {"*.io": {"username": "u", "password": password}}
    answer = {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Registry", "auth": auth}
    path = tmp_path / "provider"
    path.write_text(
        f"#!/bin/sh\ncat >> {tmp_path}/asked\ntr '\\0' ' ' < /proc/$$/cmdline >> {tmp_path}/shown\n"
        f"env >> {tmp_path}/shown\necho '{json.dumps(answer)}'\n"
    )
    path.chmod(0o755)
    program = ProviderProgram(name="provider", path=path, api_version=V1)
    return CredentialProvider(program, ("*.io",), timedelta(hours=1), attributes)


def requests(tmp_path: Path) -> list[dict[str, Any]]:
    """Read what the provider was told."""
    asked = tmp_path / "asked"
    return [json.loads(line) for line in asked.read_text().splitlines()] if asked.exists() else []


async def test_it_gets_the_token_and_the_annotations_that_are_configured(
    provider: CredentialProvider, asking: AskingPod, tmp_path: Path
) -> None:
    """On stdin alone; the login is for the account."""
    found = await provider.logins(REPOSITORY, asking)
    assert requests(tmp_path) == [
        {
            "kind": "CredentialProviderRequest",
            "apiVersion": V1,
            "image": REPOSITORY,
            "serviceAccountToken": "canary-web-robot",
            "serviceAccountAnnotations": {ROLE: "puller"},
        }
    ]
    assert "canary" not in (tmp_path / "shown").read_text()
    assert found.account == AccountSource("default", "robot", "sa-uid")
    assert isinstance(asking.tokens, Tokens)
    (spec,) = asking.tokens.asked
    assert spec == TokenSpec("default", "robot", ("registry",), None, POD, "sa-uid")


@pytest.mark.parametrize(
    ("attributes", "account", "tokens"),
    [
        pytest.param(ATTRIBUTES, "", None, id="a-pod-without-an-account"),
        pytest.param(replace(ATTRIBUTES, requires_account=False), "", [""], id="that-is-allowed"),
        pytest.param(replace(ATTRIBUTES, required_annotations=(ZONE,)), "plain", None, id="a-required-annotation"),
        pytest.param(
            replace(ATTRIBUTES, required_annotations=(ZONE,)), "robot", ["canary-web-robot"], id="which-is-there"
        ),
        pytest.param(ATTRIBUTES, "plain", ["canary-web-plain"], id="an-optional-annotation"),
    ],
)
async def test_when_it_is_run(
    tmp_path: Path, asking: AskingPod, attributes: TokenAttributes, account: str, tokens: list[str] | None
) -> None:
    """A pod whose account does not fit has no logins of it, and that is no failure."""
    found = await made(tmp_path, attributes).logins(REPOSITORY, replace(asking, account=account))
    assert [one.get("serviceAccountToken", "") for one in requests(tmp_path)] == (tokens or [])
    assert bool(found.config) is bool(tokens)
    assert bool(found.account) is bool(tokens and tokens[0])


OTHER = replace(POD, name="other", uid="other-uid")


@pytest.mark.parametrize(
    ("per_token", "account", "pod", "expected"),
    [
        pytest.param(False, "robot", OTHER, 1, id="another-pod-of-the-account"),
        pytest.param(True, "robot", POD, 1, id="the-same-token"),
        pytest.param(True, "robot", OTHER, 2, id="another-token"),
        pytest.param(False, "plain", POD, 2, id="another-account"),
    ],
)
async def test_whom_an_answer_is_kept_for(
    tmp_path: Path, asking: AskingPod, per_token: bool, account: str, pod: BoundPod, expected: int
) -> None:
    """The account with its annotations, or the token."""
    provider = made(tmp_path, replace(ATTRIBUTES, cached_per_token=per_token))
    await provider.logins(REPOSITORY, asking)
    found = await provider.logins(REPOSITORY, replace(asking, account=account, pod=pod))
    assert len(requests(tmp_path)) == expected
    assert found.account is not None
    assert found.account.name == account


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"uid": "later", "annotations": {ROLE: "puller"}}, id="a-later-account-of-the-name"),
        pytest.param({"uid": "sa-uid", "annotations": {ROLE: "other"}}, id="another-annotation"),
    ],
)
async def test_a_changed_account_has_no_answer_of_before(
    provider: CredentialProvider, asking: AskingPod, tmp_path: Path, metadata: dict[str, Any]
) -> None:
    """Its uid and the annotations count."""
    await provider.logins(REPOSITORY, asking)
    assert isinstance(asking.objects, ObjectsInMemory)
    asking.objects.put(ObjectKind.SERVICE_ACCOUNTS, "robot", {"metadata": metadata})
    await provider.logins(REPOSITORY, asking)
    assert len(requests(tmp_path)) == 2


@pytest.mark.parametrize(("per_token", "words"), [(False, "not set to 'Token'"), (True, "")])
async def test_a_token_that_comes_back_as_a_password(
    tmp_path: Path, asking: AskingPod, per_token: bool, words: str
) -> None:
    """It would outlive its pod in the account's cache."""
    provider = made(tmp_path, replace(ATTRIBUTES, cached_per_token=per_token), "canary-web-robot")
    if per_token:
        assert (await provider.logins(REPOSITORY, asking)).config
        return
    with pytest.raises(ProviderFailed, match=words) as error:
        await provider.logins(REPOSITORY, asking)
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("account", "words"),
    [
        pytest.param("nobody", "failed to get service account: ", id="no-account"),
        pytest.param("robot", "failed to get service account token: failed to fetch token for service", id="no-token"),
    ],
)
async def test_what_the_api_server_refuses(
    provider: CredentialProvider, asking: AskingPod, caplog: pytest.LogCaptureFixture, account: str, words: str
) -> None:
    """The provider is not run, the log says why, and the pull goes on."""
    refused = replace(asking, account=account, tokens=NoTokens())
    keyring, warnings = await collect_logins([provider], REPOSITORY, refused)
    assert not keyring.lookup(REPOSITORY)
    assert warnings == ["credential provider provider failed: the worker's log has the reason"]
    assert words in caplog.text


async def test_its_stderr_is_kept_without_the_token(asking: AskingPod, tmp_path: Path) -> None:
    """A program that repeats what it read leaves no token in a file."""
    provider = made(tmp_path, ATTRIBUTES)
    provider.program.path.write_text("#!/bin/sh\ncat >&2\nexit 3\n")
    provider.stderr_file = tmp_path / "kept"
    await collect_logins([provider], REPOSITORY, asking)
    assert "canary" not in provider.stderr_file.read_text()
    assert '"serviceAccountToken": "***"' in provider.stderr_file.read_text()


def sources(found: Sequence[Any]) -> list[Any]:
    """Return where logins come from."""
    return [one.source for one in found]


async def test_a_keyring_knows_the_account_of_a_login(provider: CredentialProvider, asking: AskingPod) -> None:
    """By which the right to an image on the node is judged."""
    keyring, _ = await collect_logins([provider], REPOSITORY, asking)
    assert sources(keyring.lookup(REPOSITORY)) == [AccountSource("default", "robot", "sa-uid")]
