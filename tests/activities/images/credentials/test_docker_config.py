"""Is every form of a docker configuration read as the kubelet reads it, and nothing of it ever shown?"""

import base64
import hashlib
import json
from typing import Any

import pytest

from activities.clients.registry_login import Login
from activities.images.credentials.docker_config import NotADockerConfig, docker_config_json, dockercfg

CANARY = "canary-7Q"


def encoded(text: str) -> str:
    """Encode as the auth field is."""
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("entry", "login"),
    [
        pytest.param(
            {"username": "foo", "password": "bar", "email": "a@b"}, ("foo", "bar"), id="username-and-password"
        ),
        pytest.param({"auth": "Zm9vOmJhcg=="}, ("foo", "bar"), id="auth"),
        pytest.param({"auth": "Zm9vOmJhcg"}, ("foo", "bar"), id="auth-without-padding"),
        pytest.param({"auth": "Zm9vOm\nJhcg==\n"}, ("foo", "bar"), id="auth-with-line-breaks"),
        pytest.param({"auth": encoded("foo:b:a:r")}, ("foo", "b:a:r"), id="a-password-with-colons"),
        pytest.param({"auth": encoded("foo:")}, ("foo", ""), id="no-password"),
        pytest.param(
            {"username": "x", "password": "y", "auth": "cGluZzpwb25n"}, ("ping", "pong"), id="auth-goes-first"
        ),
        pytest.param({"Username": "foo", "Password": "bar"}, ("foo", "bar"), id="fields-in-any-case"),
        pytest.param({"username": None, "auth": "Zm9vOmJhcg=="}, ("foo", "bar"), id="null-is-nothing"),
        pytest.param({"auth": "Zm9vOmJhcg==", "unknown": [1]}, ("foo", "bar"), id="what-others-write-there-too"),
        pytest.param(None, ("", ""), id="an-empty-entry"),
    ],
)
def test_entries(entry: Any, login: tuple[str, str]) -> None:
    """In both forms of the file."""
    for found in (
        docker_config_json(json.dumps({"auths": {"r.io": entry}}).encode()),
        dockercfg(json.dumps({"r.io": entry}).encode()),
    ):
        assert (found["r.io"].username, found["r.io"].password) == login


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"auth": f"{encoded(f'foo:{CANARY}')} "}, id="a-blank-after-base64"),
        pytest.param({"auth": CANARY}, id="no-base64"),
        pytest.param({"auth": encoded(CANARY)}, id="no-colon"),
        pytest.param({"auth": base64.b64encode(b"a:\xff").decode()}, id="no-text"),
        pytest.param({"password": [CANARY]}, id="no-text-but-a-list"),
        pytest.param([CANARY], id="a-list"),
    ],
)
def test_what_is_none_is_told_without_it(entry: Any) -> None:
    """One wrong entry makes the whole file wrong, as by the kubelet."""
    with pytest.raises(NotADockerConfig) as error:
        docker_config_json(json.dumps({"auths": {"good.io": {}, "r.io": entry}}).encode())
    assert CANARY not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("text", [f"{{{CANARY}", "[]", '{"auths": []}', "[" * 100_000, ""], ids=lambda one: one[:9])
def test_no_file_at_all(text: str) -> None:
    """Not JSON, or something else."""
    with pytest.raises(NotADockerConfig) as error:
        docker_config_json(text.encode())
    assert CANARY not in str(error.value)


def test_tokens_stand_in_the_place_of_a_password() -> None:
    """The runtime looks at a user first."""
    config = {"auths": {"r.io": {"auth": encoded("0000:"), "identitytoken": "it"}, "s.io": {"registrytoken": "rt"}}}
    found = docker_config_json(json.dumps(config).encode())
    auth = found["r.io"].auth_config()
    assert (auth.username, auth.password, auth.identity_token) == ("", "", "it")
    assert found["s.io"].auth_config().registry_token == "rt"


def test_a_login_is_not_shown() -> None:
    """By no repr."""
    assert repr(Login(username=CANARY, password=CANARY, identity_token=CANARY, registry_token=CANARY)) == "Login()"


def test_the_hash_is_the_kubelet_s() -> None:
    """Go's JSON of the fields that are not empty, which escapes what HTML would mistake."""
    login = Login(username="foo", password="a<b>&\u2028", email="e")
    written = '{"username":"foo","password":"a\\u003cb\\u003e\\u0026\\u2028","email":"e"}'
    assert login.digest() == hashlib.sha256(written.encode()).hexdigest()


def test_every_form_of_a_secret_is_known() -> None:
    """So that it can be hidden wherever somebody quotes it."""
    forms = list(Login(username="foo", password="b r").secrets())
    assert {"b r", "b%20r", encoded("foo:b r"), encoded(":b r"), encoded("b r")} <= set(forms)
    assert forms == sorted(forms, key=len, reverse=True)
