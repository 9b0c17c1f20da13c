"""Is a kubeconfig read as client-go reads it, and does the error for an unusable one name the field?"""

import base64
import json
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.clients.api_server.exec_credential import ExecCredentials, ExecFailed, ExecProgram, run_program
from activities.clients.api_server.kubeconfig import KubeconfigRefused, load_kubeconfig
from tests.cluster.certificates import Authority

V1 = "client.authentication.k8s.io/v1"


def written(folder: Path, *, user: Any = None, cluster: Any = None, **changed: Any) -> Path:
    """Write a kubeconfig with one context."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changed,
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def script(folder: Path, text: str) -> Path:
    """Write a program."""
    path = folder / "who-am-i"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def credential(**status: str) -> str:
    """Return what a program prints."""
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


REFUSED: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "no such file": ("", {}, "cannot be read: No such file or directory"),
    "no YAML": ("{", {}, "no YAML"),
    "a list": ("[]", {}, "no kubeconfig"),
    "no context": (None, {"current-context": "y"}, "contexts: none is named 'y'"),
    "no cluster": (None, {"clusters": []}, "clusters: none is named 'c'"),
    "no user": (None, {"users": []}, "users: none is named 'u'"),
    "a server without a scheme": (None, {"cluster": {"server": "10.0.0.1"}}, "cluster.server: '10.0.0.1'"),
    "a proxy": (None, {"cluster": {"proxy-url": "http://p"}}, "proxy-url: not supported"),
    "an authentication of old": (None, {"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider: not supported"),
    "data that is not base64": (None, {"user": {"client-certificate-data": "%"}}, "client-certificate-data: no base64"),
    "a program of another protocol": (None, {"user": {"exec": {"command": "x", "apiVersion": "v0"}}}, "user.exec"),
    "a program that asks a person": (
        None,
        {"user": {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Always"}}},
        "a node has no terminal",
    ),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_cannot_be_used_is_refused_by_field(tmp_path: Path, row: str) -> None:
    """The message also names the file."""
    text, changed, words = REFUSED[row]
    path = tmp_path / "kubeconfig"
    if text is None:
        written(tmp_path, **changed)
    elif text:
        path.write_text(text)
    with pytest.raises(KubeconfigRefused, match=str(path)) as refused:
        load_kubeconfig(path)
    assert words in str(refused.value)


def test_paths_count_from_the_files_own_folder(tmp_path: Path) -> None:
    """A relative path, an inline value and an absolute one."""
    (tmp_path / "token").write_text("secret\n")
    inline = {"certificate-authority-data": base64.b64encode(b"authority").decode()}
    found = load_kubeconfig(written(tmp_path, user={"tokenFile": "token"}, cluster=inline))
    assert found.token.path == tmp_path / "token"
    assert found.headers() == {"Authorization": "Bearer secret"}
    assert found.authority.read() == b"authority"


def test_a_secret_is_not_in_its_words(tmp_path: Path) -> None:
    """Logging the object reveals nothing."""
    found = load_kubeconfig(written(tmp_path, user={"token": "canary"}))
    assert "canary" not in repr(found)
    assert found.headers() == {"Authorization": "Bearer canary"}


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    """A rotated token or certificate is used without a restart; the rotated pair is preferred as soon as it exists."""
    token = tmp_path / "token"
    token.write_text("one")
    found = load_kubeconfig(written(tmp_path, user={"tokenFile": "token"}))
    before = found.stamp
    new = tmp_path / "new"
    new.write_text("two")
    new.replace(token)
    assert found.stamp != before
    assert found.headers() == {"Authorization": "Bearer two"}


async def test_a_program_tells_who_we_are(tmp_path: Path) -> None:
    """It prints a credential to stdout, reads KUBERNETES_EXEC_INFO, and its path is relative to the kubeconfig."""
    script(
        tmp_path,
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/asked; echo "$GREETING" > {tmp_path}/env; echo {credential(token="t")!r}',
    )
    user = {"exec": {"command": "./who-am-i", "apiVersion": V1, "env": [{"name": "GREETING", "value": "hello"}]}}
    found = load_kubeconfig(written(tmp_path, user=user))
    assert found.program is not None
    told = await run_program(found.program)
    assert found.headers(told) == {"Authorization": "Bearer t"}
    assert json.loads((tmp_path / "asked").read_text())["apiVersion"] == V1
    assert (tmp_path / "env").read_text() == "hello\n"
    assert "t" not in repr(told).replace("ExecCredential(expires=None)", "")


async def test_a_credential_is_asked_for_again_when_it_is_over_or_refused(tmp_path: Path) -> None:
    """The program does not run earlier than that."""
    over = datetime.now(UTC) + timedelta(seconds=5)  # within the ten seconds before its end
    later = datetime.now(UTC) + timedelta(hours=1)
    count = tmp_path / "count"
    for expires, runs in ((over, 2), (later, 1)):
        count.write_text("")
        path = script(
            tmp_path, f"echo run >> {count}; echo {credential(token='t', expirationTimestamp=expires.isoformat())!r}"
        )
        credentials = ExecCredentials(ExecProgram(str(path), V1))
        first = await credentials.current()
        await credentials.current()
        assert len(count.read_text().split()) == runs
    credentials.refused(first)
    await credentials.current()
    assert len(count.read_text().split()) == 2


FAILS = {
    "fails": ("echo canary >&2; exit 3", "exit status 3; run it as root to see why"),
    "prints no JSON": ("echo canary", "not an ExecCredential"),
    "prints another version": (f"echo {credential(token='t').replace('/v1', '/v9')!r}", "not an ExecCredential"),
    "prints without end": ("cat /dev/zero", "it printed more than 65536 bytes"),
    "fails after many words": ("yes canary | head -c 5000000 >&2; exit 3", "exit status 3; run it as root to see why"),
    "gives nothing": (f"echo {credential()!r}", "neither a token nor a certificate"),
    "tells no time zone": (
        f"echo {credential(token='canary', expirationTimestamp='2126-01-02T03:04:05')!r}",
        "is in no time zone",
    ),
}


@pytest.mark.parametrize("row", FAILS)
async def test_a_program_that_gives_nothing_is_named(tmp_path: Path, row: str) -> None:
    """Nothing that it prints is told."""
    text, words = FAILS[row]
    path = script(tmp_path, text)
    with pytest.raises(ExecFailed, match=words) as failed:
        await run_program(ExecProgram(str(path), V1))
    assert str(path) in str(failed.value)
    assert "canary" not in str(failed.value)


async def test_a_program_that_is_not_there_is_named_with_its_hint() -> None:
    """The operator sees the install hint."""
    program = ExecProgram("/nowhere/aws-iam-authenticator", V1, install_hint="install it from the vendor")
    with pytest.raises(ExecFailed, match=r"/nowhere/aws-iam-authenticator.*install it from the vendor"):
        await run_program(program)


def test_inline_keys_touch_no_disk_for_longer_than_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ssl` takes only files, so they exist for a moment, readable by us alone."""
    mine = Authority.make(tmp_path).sign("node", "system:node:n")
    seen: list[Path] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        seen.extend((certificate, key))
        assert [stat.S_IMODE(one.stat().st_mode) for one in seen] == [0o600, 0o600]
        load(context, certificate, key)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    pair = {"client-certificate-data": mine.certificate, "client-key-data": mine.key}
    inline = {name: base64.b64encode(file.read_bytes()).decode() for name, file in pair.items()}
    load_kubeconfig(written(tmp_path, user=inline)).tls()
    assert [one.exists() for one in seen] == [False, False]
