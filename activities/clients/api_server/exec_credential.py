"""Credentials from a program that the kubeconfig names (`users[].user.exec`, as on EKS).

The protocol is client.authentication.k8s.io (client-go plugin/pkg/client/auth/exec). The program prints an
ExecCredential with a token, or a certificate and its key. It is valid until its expirationTimestamp, or until the API
server refuses it. What the program prints, to stderr as well, is never told: a message of this client can be in a pod's
status.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

TIME_LIMIT: Final = timedelta(minutes=1)
BEFORE_EXPIRY: Final = timedelta(seconds=10)
"""The program runs again this long before its credential expires, so that no call outlives it."""
LARGEST_ANSWER: Final = 64 * 1024
"""Bytes; a certificate with its key has a few thousand."""
_CHUNK: Final = 16 * 1024
VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ExecFailed(Exception):
    """The program gave no credential.

    The message names the program and what to do, and nothing that it printed.
    """


class _TooLong(Exception):
    """The program printed too much."""


@dataclass(frozen=True, slots=True)
class ExecProgram:
    """How the program is run."""

    command: str
    api_version: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cluster: Mapping[str, Any] | None = None
    """The cluster information that it gets where provideClusterInfo asks for that."""
    install_hint: str = ""


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """A credential from the program."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None

    def is_good(self, now: datetime) -> bool:
        """Report whether it is still valid."""
        return self.expires is None or now < self.expires - BEFORE_EXPIRY


class ExecCredentials:
    """The program's newest credential; concurrent callers share one run."""

    def __init__(self, program: ExecProgram) -> None:
        self._program = program
        self._known: ExecCredential | None = None
        self._running = asyncio.Lock()

    async def current(self) -> ExecCredential:
        """Return a valid credential; raises ExecFailed."""
        async with self._running:
            if self._known is None or not self._known.is_good(datetime.now(UTC)):
                self._known = await run_program(self._program)
            return self._known

    def refused(self, credential: ExecCredential) -> None:
        """Drop a credential that the API server refused: the next call runs the program again."""
        if self._known is credential:
            self._known = None


async def run_program(program: ExecProgram) -> ExecCredential:
    """Run the program once; raises ExecFailed."""
    asked: dict[str, Any] = {
        "apiVersion": program.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False} | ({"cluster": program.cluster} if program.cluster else {}),
    }
    environment = {**os.environ, **program.env, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        process = await asyncio.create_subprocess_exec(
            program.command,
            *program.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {program.install_hint}" if program.install_hint else ""
        raise ExecFailed(f"exec {program.command}: {error}{hint}") from None
    try:
        async with asyncio.timeout(TIME_LIMIT.total_seconds()):
            answer = await _output(process)
    except TimeoutError:
        raise ExecFailed(f"exec {program.command}: no answer within {TIME_LIMIT.total_seconds():g} s") from None
    except _TooLong:
        raise ExecFailed(f"exec {program.command}: it printed more than {LARGEST_ANSWER} bytes") from None
    finally:
        if process.returncode is None:
            _kill(process)
    if process.returncode:
        hint = "run it as root to see why, for what it prints may hold a secret"
        raise ExecFailed(f"exec {program.command}: exit status {process.returncode}; {hint}")
    return read_credential(program, answer)


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """Wait for the program's end and return what it printed; raises _TooLong."""
    assert process.stdout is not None
    answer = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        if len(answer) <= LARGEST_ANSWER:
            answer += chunk
        elif process.returncode is None:
            _kill(process)  # the pipe is read to its end, which closes it
    await process.wait()
    if len(answer) > LARGEST_ANSWER:
        raise _TooLong
    return bytes(answer)


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill it with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def read_credential(program: ExecProgram, answer: bytes) -> ExecCredential:
    """Parse the program's output; raises ExecFailed."""
    failure = f"exec {program.command}: its output is not an ExecCredential of {program.api_version}"
    try:
        printed = json.loads(answer)
        status = printed["status"]
        expires = status.get("expirationTimestamp")
        credential = ExecCredential(
            token=status.get("token") or "",
            certificate=(status.get("clientCertificateData") or "").encode(),
            key=(status.get("clientKeyData") or "").encode(),
            expires=datetime.fromisoformat(expires) if expires else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ExecFailed(failure) from None
    if (
        credential.expires is not None and credential.expires.tzinfo is None
    ):  # without a time zone it cannot be compared
        raise ExecFailed(f"{failure}: its expirationTimestamp is in no time zone")
    if printed.get("kind") != "ExecCredential" or printed.get("apiVersion") != program.api_version:
        raise ExecFailed(failure)
    if not credential.token and not (credential.certificate and credential.key):
        raise ExecFailed(f"{failure}: neither a token nor a certificate with its key")
    return credential
