"""Are credential providers run as the kubelet runs them: once at a time, for a minute, and without a word of what they said?"""

import asyncio
import contextlib
import json
import logging
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.images.credentials.provider_exec import LARGEST_ANSWER, ProviderFailed, ProviderProgram, run_provider
from activities.images.credentials.providers import CredentialProvider, collect_logins
from tests.activities.foreign.held_loop import holds
from tests.patience import PATIENCE

V1 = "credentialprovider.kubelet.k8s.io/v1"
CANARY = "canary-7Q"
REPOSITORY = "registry.io/team/app"
Install = Callable[..., ProviderProgram]


def answer(**fields: Any) -> str:
    """Write an answer."""
    login = {"*.io": {"username": "foo", "password": CANARY}}
    return json.dumps(
        {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Image", "auth": login} | fields
    )


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Write a provider: a shell script, which leaves a line in `runs` at each run."""

    def made(script: str, **settings: Any) -> ProviderProgram:
        path = tmp_path / "provider"
        path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{script}\n")
        path.chmod(0o755)
        return ProviderProgram(name="provider", path=path, api_version=V1, **settings)

    return made


def runs(tmp_path: Path) -> int:
    """Count how often it ran."""
    return len((tmp_path / "runs").read_text().splitlines())


async def test_it_is_told_the_image_and_tells_the_login(install: Install, tmp_path: Path) -> None:
    """On stdin and stdout, with its arguments, and its variables beside those of the process."""
    script = (
        f'cat > {tmp_path}/asked\necho "$1 $OURS $HOME" > {tmp_path}/given\ncat <<E\n{answer(cacheDuration="6h")}\nE'
    )
    program = install(script, args=("--flag",), env={"OURS": "x"})
    found = await run_provider(program, REPOSITORY)
    assert json.loads((tmp_path / "asked").read_text()) == {
        "kind": "CredentialProviderRequest",
        "apiVersion": V1,
        "image": REPOSITORY,
    }
    assert (tmp_path / "given").read_text().split() == ["--flag", "x", os.environ["HOME"]]
    assert found.config["*.io"].password == CANARY
    assert found.keep_for == timedelta(hours=6)
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(f"echo {CANARY} >&2; exit 3", "exit status 3", id="exit-code"),
        pytest.param("kill -9 $$", "signal: SIGKILL", id="signal"),
        pytest.param(f"echo '{{{CANARY}'", "error decoding", id="no-json"),
        pytest.param(f"echo '[\"{CANARY}\"]'", "error decoding", id="no-object"),
        pytest.param(f"echo '{answer(apiVersion=CANARY)}'", "actual apiVersion:something else", id="another-version"),
        pytest.param(f"echo '{answer(kind='Pod')}'", "error decoding", id="another-kind"),
        pytest.param(f"echo '{answer(more=CANARY)}'", "error decoding", id="an-unknown-field"),
        pytest.param(f"echo '{answer(cacheKeyType='Any')}'", "a valid cacheKeyType", id="no-cache-key-type"),
        pytest.param(f"echo '{answer(cacheDuration=CANARY)}'", "error decoding", id="no-duration"),
        pytest.param(f"echo '{answer(cacheDuration='1' * 50_000)}'", "error decoding", id="a-duration-of-many-digits"),
        pytest.param(f"echo '{answer(auth={'r.io': CANARY})}'", "error decoding", id="no-login"),
        pytest.param(f"echo '{answer(auth={'r.io': {'password': 3}})}'", "error decoding", id="no-text"),
        pytest.param("cat /dev/zero", f"more than {LARGEST_ANSWER} bytes", id="too-much"),
    ],
)
async def test_failures(install: Install, script: str, words: str) -> None:
    """Each is told, and nothing of an answer is."""
    with pytest.raises(ProviderFailed) as error:
        await run_provider(install(script), REPOSITORY)
    assert words in str(error.value)
    assert CANARY not in str(error.value)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "auth",
    [
        pytest.param(",".join(f'"{number:x}":{{}}' for number in range(4_900)), id="many-logins"),
        pytest.param(",".join(f'"{number:x}":{"[" * 90}{"]" * 90}' for number in range(1_200)), id="deep-lists"),
        pytest.param(",".join(f'"{number:x}":{{}}' for number in range(25_000)), id="more-than-is-read"),
        pytest.param(f'"r.io":{{"username":"{"*" * 200_000}"}}', id="a-long-text"),
    ],
)
async def test_an_answer_does_not_hold_the_event_loop(install: Install, tmp_path: Path, auth: str) -> None:
    """It is read in a thread, and is no longer than that is quick."""
    head = f'"kind":"CredentialProviderResponse","apiVersion":"{V1}","cacheKeyType":"Image"'
    (tmp_path / "answer").write_text(f'{{{head},"auth":{{{auth}}}}}')
    program = install(f"cat {tmp_path}/answer")

    async def ask() -> None:
        with contextlib.suppress(ProviderFailed):
            await run_provider(program, REPOSITORY)

    assert await holds(ask) == []


async def test_a_program_that_cannot_run(install: Install) -> None:
    """It is told which one."""
    program = install("")
    program.path.chmod(0o600)
    with pytest.raises(ProviderFailed, match=r"plugin provider for image registry\.io/team/app: Permission denied"):
        await run_provider(program, REPOSITORY)


@pytest.mark.parametrize("cancelled", [False, True], ids=["after-its-time", "when-nobody-waits"])
async def test_it_is_killed_with_all_that_it_started(install: Install, tmp_path: Path, cancelled: bool) -> None:
    """It has a session of its own."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    limit = timedelta(minutes=1) if cancelled else timedelta(seconds=2)
    program = install(f"(exec 3<> {fifo}; echo started >&3; sleep 1000) &\nsleep 1000", time_limit=limit)
    said = asyncio.StreamReader()
    held = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(said), held)
    run = asyncio.create_task(run_provider(program, REPOSITORY))
    if cancelled:
        assert await said.readline() == b"started\n"
        run.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ProviderFailed):
        await run
    async with asyncio.timeout(PATIENCE):
        assert (await said.read()) in {b"", b"started\n"}  # to EOF: no process holds it open any more
    transport.close()


@pytest.mark.parametrize(
    ("fields", "again", "expected"),
    [
        pytest.param({"cacheDuration": "1h"}, REPOSITORY, 1, id="the-same-image"),
        pytest.param({"cacheDuration": "1h"}, "registry.io/other", 2, id="another-image"),
        pytest.param({"cacheDuration": "1h", "cacheKeyType": "Registry"}, "registry.io/other", 1, id="the-registry"),
        pytest.param({"cacheDuration": "1h", "cacheKeyType": "Registry"}, "quay.io/other", 2, id="another-registry"),
        pytest.param({"cacheDuration": "1h", "cacheKeyType": "Global"}, "quay.io/other", 1, id="everywhere"),
        pytest.param({"cacheDuration": "0s"}, REPOSITORY, 2, id="not-at-all"),
        pytest.param({}, REPOSITORY, 1, id="as-long-as-the-configuration-says"),
    ],
)
async def test_how_long_and_for_what_an_answer_is_kept(
    install: Install, tmp_path: Path, fields: dict[str, str], again: str, expected: int
) -> None:
    """By the answer, else by the configuration."""
    provider = CredentialProvider(install(f"echo '{answer(**fields)}'"), ("*.io",), timedelta(minutes=1))
    await provider.logins(REPOSITORY)
    await provider.logins(again)
    assert runs(tmp_path) == expected


async def test_an_answer_that_is_too_old_is_asked_for_again(install: Install, tmp_path: Path) -> None:
    """By the clock."""
    now = [0.0]
    script = f"echo '{answer(cacheDuration='10s')}'"
    provider = CredentialProvider(install(script), ("*.io",), clock=lambda: now[0])
    for now[0], expected in ((0.0, 1), (9.0, 1), (11.0, 2)):
        await provider.logins(REPOSITORY)
        assert runs(tmp_path) == expected


async def test_who_asks_for_the_same_waits_for_one_run(install: Install, tmp_path: Path) -> None:
    """Also where nothing is kept."""
    provider = CredentialProvider(install(f"echo '{answer(cacheDuration='0s')}'"), ("*.io",))
    found = await asyncio.gather(*(provider.logins(REPOSITORY) for _ in range(10)))
    assert runs(tmp_path) == 1
    assert [one.config["*.io"].password for one in found] == [CANARY] * 10


async def test_one_that_fails_is_as_good_as_none(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pull goes on; the log has the reason, and the pod's story that there is one."""
    failing = CredentialProvider(install("exit 3"), ("registry.io",))
    other = CredentialProvider(install("exit 3"), ("quay.io",))
    with caplog.at_level(logging.ERROR):
        keyring, warnings = await collect_logins([failing, other], REPOSITORY)
    assert not keyring.lookup(REPOSITORY)
    assert warnings == ["credential provider provider failed: the worker's log has the reason"]
    assert "exit status 3" in caplog.text
    assert runs(tmp_path) == 1


async def test_what_it_says_when_it_fails_is_roots_alone(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its stderr may hold a secret: a file has its beginning, and neither the log nor the pod's story a word of it."""
    kept = tmp_path / "kept" / "provider.stderr"
    said = f"echo 'key {CANARY}, sent to https://u:hunter2@r.io' >&2; yes {CANARY} | head -c 5000000 >&2; exit 3"
    failing = CredentialProvider(install(said), ("registry.io",), stderr_file=kept)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            await asyncio.gather(*(collect_logins([failing], f"{REPOSITORY}{number}") for number in range(4)))
    _, warnings = await collect_logins([failing], REPOSITORY)
    assert CANARY not in f"{caplog.text}{warnings}"
    assert f"exit status 3; its stderr is in {kept}" in caplog.text
    assert kept.read_text().startswith(f"key {CANARY}, sent to https://***@r.io\n")
    assert kept.stat().st_size <= 2048
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept.parent, kept)] == [0o700, 0o600]


async def test_a_file_that_cannot_be_written_is_told(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pull goes on."""
    failing = CredentialProvider(install(f"echo {CANARY} >&2; exit 3"), ("*.io",), stderr_file=tmp_path / "runs" / "x")
    with caplog.at_level(logging.ERROR):
        _, warnings = await collect_logins([failing], REPOSITORY)
    assert "its stderr cannot be kept: " in caplog.text
    assert CANARY not in f"{caplog.text}{warnings}"
