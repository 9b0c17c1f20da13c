"""Runs a credential provider: the request on stdin, the response on stdout, at most a minute.

The protocol is credentialprovider.kubelet.k8s.io; names and limits are those of
pkg/credentialprovider/plugin/plugin.go. The program has a session of its own, so that all its children end when no caller
waits for it any more. Nothing that it writes is in a message: a response that cannot be read is only reported as such, and
the beginning of its stderr comes beside the message, for a file of root's.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from activities.clients.registry_login import Login
from activities.clients.scrub import scrub
from activities.images.credentials.account_tokens import AccountToken
from activities.images.credentials.docker_config import MOST_VALUES, DockerConfig, has_too_much
from proto.kubernetes.go_duration import parse_duration

TIME_LIMIT: Final = timedelta(minutes=1)
LARGEST_ANSWER: Final = 256 * 1024
"""Bytes; a response normally has a few hundred."""

_WORDS_TOLD: Final = 1024
_STDERR: Final = 2
_ANSWER_FIELDS: Final = frozenset({"kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth"})
_LOGIN_FIELDS: Final = frozenset({"username", "password"})


class CacheKeyType(StrEnum):
    """What a response may be cached for."""

    IMAGE = "Image"
    REGISTRY = "Registry"
    GLOBAL = "Global"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderProgram:
    """How a provider is run."""

    name: str
    path: Path
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    time_limit: timedelta = TIME_LIMIT


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """The response of a provider."""

    config: DockerConfig = field(repr=False)
    good_for: CacheKeyType
    keep_for: timedelta | None = None
    """None: not specified."""


class ProviderFailed(Exception):
    """A provider gave no usable response; the message quotes nothing that it wrote."""

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr
        """The beginning, which may hold a secret."""


async def run_provider(program: ProviderProgram, image: str, account: AccountToken | None = None) -> ProviderAnswer:
    """Ask a provider for the logins of an image's repository; raises ProviderFailed."""
    failure = f"error execing credential provider plugin {program.name} for image {image}"
    talk = _Talk((account.text,) if account else ())
    try:
        transport = await _started(program, talk)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "its arguments cannot be passed"
        raise ProviderFailed(f"{failure}: {why}") from None
    try:
        _ask(transport, _request(program, image, account))
        async with asyncio.timeout(program.time_limit.total_seconds()):
            await talk.ended.wait()
    except TimeoutError:
        limit = f"{program.time_limit.total_seconds():g} s"
        raise ProviderFailed(f"{failure}: it gave no answer within {limit}", talk.told()) from None
    finally:
        _end(transport, talk)
    if len(talk.answer) > LARGEST_ANSWER:
        raise ProviderFailed(f"{failure}: it answered more than {LARGEST_ANSWER} bytes")
    if code := transport.get_returncode():
        ended = f"exit status {code}" if code > 0 else f"signal: {signal.Signals(-code).name}"
        raise ProviderFailed(f"{failure}: {ended}", talk.told())
    return await asyncio.to_thread(_read, program, bytes(talk.answer))


async def _started(program: ProviderProgram, talk: "_Talk") -> asyncio.SubprocessTransport:
    """Start it; a cancellation meanwhile leaves no process behind. Raises OSError and ValueError."""
    environment = {**os.environ, **program.env}
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: talk, program.path, *program.args, env=environment, start_new_session=True
        )
    )
    try:
        return (await asyncio.shield(starting))[0]
    except asyncio.CancelledError:
        _end((await starting)[0], talk)
        raise


class _Talk(asyncio.SubprocessProtocol):
    """Collects a provider's output until it ends and closes its pipes, or writes too much."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self.secrets = secrets
        self.answer = bytearray()
        self.words = bytearray()
        self.ended = asyncio.Event()
        self.is_over = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep its response, and the beginning of its stderr."""
        if fd == _STDERR:
            self.words += data[: _WORDS_TOLD - len(self.words)]
        elif not self.ended.is_set():
            self.answer += data
            if len(self.answer) > LARGEST_ANSWER:
                self.ended.set()

    def told(self) -> str:
        """Return the beginning of its stderr, without its token, and logins in addresses and headers."""
        return scrub(self.words.decode(errors="replace").strip(), self.secrets)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio gives it
        """Note that it has ended."""
        self.is_over = True
        self.ended.set()


def _request(program: ProviderProgram, image: str, account: AccountToken | None) -> dict[str, Any]:
    request: dict[str, Any] = {
        "kind": "CredentialProviderRequest",
        "apiVersion": program.api_version,
        "image": image,
    }
    if account:
        request["serviceAccountToken"] = account.text
        if account.annotations:
            request["serviceAccountAnnotations"] = dict(account.annotations)
    return request


def _ask(transport: asyncio.SubprocessTransport, request: Mapping[str, Any]) -> None:
    """Send the request; a provider need not read it."""
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)
    stdin.write(json.dumps(request).encode() + b"\n")
    stdin.close()


def _end(transport: asyncio.SubprocessTransport, talk: _Talk) -> None:
    """Kill its whole session, unless it has ended by itself."""
    if not talk.is_over:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
    transport.close()


def _read(program: ProviderProgram, data: bytes) -> ProviderAnswer:
    unreadable = "error decoding credential provider plugin response from stdout"
    if has_too_much(data):
        raise ProviderFailed(f"{unreadable}: it has more than {MOST_VALUES} values")
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise ProviderFailed(unreadable) from None  # the error quotes the response
    if not isinstance(answer, dict):
        raise ProviderFailed(unreadable)
    if answer.get("apiVersion") != program.api_version:
        group = program.api_version.partition("/")[0]
        found = str(answer.get("apiVersion", ""))[:100]
        found = found if found.startswith(f"{group}/") else "something else"  # it may contain a secret
        raise ProviderFailed(
            "apiVersion from credential plugin response did not match expected "
            f"apiVersion:{program.api_version}, actual apiVersion:{found}"
        )
    if answer.get("kind") != "CredentialProviderResponse" or not answer.keys() <= _ANSWER_FIELDS:
        raise ProviderFailed(unreadable)
    try:
        good_for = CacheKeyType(str(answer.get("cacheKeyType")))
    except ValueError:
        raise ProviderFailed("credential provider plugin did not return a valid cacheKeyType") from None
    try:
        config = {location: _login(entry) for location, entry in (answer.get("auth") or {}).items()}
        keep_for = answer.get("cacheDuration")
        return ProviderAnswer(config, good_for, None if keep_for is None else parse_duration(keep_for))
    except (ValueError, TypeError, AttributeError):
        raise ProviderFailed(unreadable) from None


def _login(entry: Mapping[str, Any]) -> Login:
    if not entry.keys() <= _LOGIN_FIELDS or not all(isinstance(one, str) for one in entry.values()):
        raise ValueError("an entry of another shape")
    return Login(username=entry.get("username", ""), password=entry.get("password", ""))
