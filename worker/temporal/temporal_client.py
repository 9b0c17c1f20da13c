"""Connects to Temporal as the operator configured it, and creates what tempolet needs there.

Called by worker and poller (`client_opened_later`, then `prepare`) and by commands that read history (`connect`).
Address, namespace, TLS and API key come from temporalio.envconfig, as in all Temporal programs: `TEMPORAL_*` in the
environment over a profile in the TOML file (`TEMPORAL_CONFIG_FILE`, `TEMPORAL_PROFILE`). Two secrets of the environment may be
credentials of the unit instead (`LoadCredential=`), which no child process gets. Settings that no server could
answer are an error at once; a Temporal that does not answer is waited for, because on a node everything starts at once.

An address `unix:///path` is a socket of this machine: that of the Temporal which `tempolet up` starts.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio.client import AsyncActivityHandle, Client, Plugin
from temporalio.converter import ActivitySerializationContext
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import HttpConnectProxyConfig, RPCError, RPCStatusCode

from proto.temporal.names import NAMESPACE, RETENTION_DAYS, SEARCH_ATTRIBUTES
from worker.temporal.codec import data_converter
from worker.temporal.connect_errors import (
    PASSING,
    UNIX,
    TemporalMisconfigured,
    TemporalRefuses,
    reason,
    refusal,
    refuse_unusable,
)
from worker.temporal.connection import OpenedLater
from worker.temporal.executions import list_executions
from worker.temporal.keys import KeyFile
from worker.temporal.namespace import TemporalNotPrepared, ensure_namespace, ensure_search_attributes, what_to_run

DEFAULT_ADDRESS: Final = "127.0.0.1:7233"
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""Where systemd has a unit's credentials: systemd.exec(5)."""
API_KEY_CREDENTIAL: Final = "tempolet.temporal-api-key"
TLS_KEY_CREDENTIAL: Final = "tempolet.temporal-tls-key"
_LONGEST_API_KEY: Final = 16 * 1024
CORE_LEVELS: Final = f"{TelemetryFilter('WARN', 'ERROR').formatted()},temporal_sdk_bridge::client=ERROR"
"""What the SDK's core logs: warnings, but not that a unix socket, as every proxy, has no addresses to balance."""
_FIRST_WAIT: Final = timedelta(milliseconds=200)
_LONGEST_WAIT: Final = timedelta(seconds=10)
_CALL_LIMIT: Final = timedelta(seconds=10)
_CONNECTS_WITHIN: Final = timedelta(seconds=10)
"""For the network alone; a server that accepts and is silent is given 30 s by the SDK's core."""
_KNOWN_WITHIN: Final = timedelta(minutes=3)
"""Temporal refreshes its search attributes every minute."""
_NOT_KNOWN_YET: Final = frozenset({RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND})
"""Visibility's answers for new search attributes and a new namespace."""
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TemporalSettings:
    """Temporal's address and the key file; the environment fills in what is left out here."""

    key_file: Path
    config_file: Path | None = None
    """A TOML file; without it, TEMPORAL_CONFIG_FILE or the default path."""
    profile: str | None = None
    address: str | None = None
    """Takes precedence over environment and profile: the address of the Temporal that `up` starts."""
    namespace: str | None = None
    """Takes precedence too: TempoletConfiguration's temporal.namespace."""
    retention: timedelta = timedelta(days=RETENTION_DAYS)
    sends_only: bool = False
    """Nothing is read from workflows, so what reads payloads need not be loaded."""
    key_missing: Callable[[str], None] | None = field(default=None, repr=False)
    """Called with what to do each time that the secret of an active key is missing."""
    environment: dict[str, str] | None = field(default=None, repr=False)
    """Instead of the process's, for tests."""


def _silent(_: str) -> None:
    """Do nothing."""


def connect_options(settings: TemporalSettings) -> ClientConnectConfig:
    """Return address and namespace: the settings over the environment over the profile. Raises TemporalMisconfigured."""
    try:
        profile = ClientConfigProfile.load(
            profile=settings.profile,
            config_source=settings.config_file,
            override_env_vars=with_credentials(os.environ if settings.environment is None else settings.environment),
        )
        options = profile.to_client_connect_config()
    except (OSError, RuntimeError, ValueError) as error:  # a missing file, a missing profile, no TOML
        raise TemporalMisconfigured(f"Temporal's settings cannot be read: {error}") from error
    options["target_host"] = settings.address or profile.address or DEFAULT_ADDRESS
    options["namespace"] = settings.namespace or profile.namespace or NAMESPACE
    return options


def with_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Add what the unit has as credentials; a variable that is set wins. Raises OSError, and ValueError for what is no API key."""
    found = dict(environment)
    if not (folder := environment.get(CREDENTIALS)):
        return found
    api_key, tls_key = Path(folder, API_KEY_CREDENTIAL), Path(folder, TLS_KEY_CREDENTIAL)
    if "TEMPORAL_API_KEY" not in found and api_key.exists():
        found["TEMPORAL_API_KEY"] = _read_api_key(api_key)
    if tls_key.exists():
        found.setdefault("TEMPORAL_TLS_CLIENT_KEY_PATH", str(tls_key))
    return found


def _read_api_key(path: Path) -> str:
    with path.open("rb") as file:
        text = file.read(_LONGEST_API_KEY + 1).strip()
    if not text or len(text) > _LONGEST_API_KEY or not text.isascii() or not text.decode("ascii").isprintable():
        raise ValueError(
            f"credential {path.name} is no API key: it is one line of ASCII, at most {_LONGEST_API_KEY} bytes"
        )
    return text.decode("ascii")


async def connect(
    settings: TemporalSettings,
    *,
    waiting: Callable[[str], None] = _silent,
    runtime: Runtime | None = None,
    plugins: Sequence[Plugin] = (),
    identity: str | None = None,
) -> Client:
    """Connect, waiting while Temporal does not answer; `waiting` is called each time with what is awaited.

    Raises TemporalMisconfigured and KeyFileRefused, and TemporalRefuses for what waiting does not fix (credentials).
    """
    options = client_options(settings, runtime)
    wait = _FIRST_WAIT
    while True:
        try:
            return await Client.connect(**options, plugins=plugins, identity=identity)
        except RuntimeError as error:  # raised by the SDK's core if it cannot connect
            if refusal(error):
                raise TemporalRefuses(not_connected(settings, error)) from error
            waiting(not_connected(settings, error))
        await asyncio.sleep(wait.total_seconds())
        wait = min(wait * 2, _LONGEST_WAIT)


async def client_opened_later(
    settings: TemporalSettings,
    *,
    runtime: Runtime | None = None,
    plugins: Sequence[Plugin] = (),
    identity: str | None = None,
) -> Client:
    """Make a client whose `Connection` is opened later; raises TemporalMisconfigured and KeyFileRefused."""
    options = client_options(settings, runtime)
    return await Client.connect(**options, plugins=[OpenedLater(), *plugins], identity=identity)


def client_options(settings: TemporalSettings, runtime: Runtime | None = None) -> dict[str, Any]:
    """Return the options of `Client.connect`; raises TemporalMisconfigured and KeyFileRefused."""
    options = connect_options(settings)
    refuse_unusable(dict(options))
    address = options["target_host"]
    if runtime is None and address.startswith(UNIX):
        runtime = _quieter_runtime()
    converter = data_converter(KeyFile(settings.key_file, missing=settings.key_missing), sends_only=settings.sends_only)
    way = {"connect_timeout": _CONNECTS_WITHIN, **options, **way_to(address)}
    return {**way, "data_converter": converter, "runtime": runtime}


def not_connected(settings: TemporalSettings, error: RuntimeError) -> str:
    """Say which Temporal does not answer, or refuses us, and why."""
    place = connect_options(settings)["target_host"]
    if settings.address is None and place == DEFAULT_ADDRESS:
        place += " (TEMPORAL_ADDRESS names another)"
    why = refusal(error)
    return f"Temporal at {place} refuses: {why}" if why else f"waiting for Temporal at {place}: {reason(error)}"


@functools.cache
def _quieter_runtime() -> Runtime:
    """Return the runtime of a command, whose log is the operator's terminal."""
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=CORE_LEVELS)))


def place_of(client: Client) -> str:
    """Return a client's address, which for a unix socket is its path, and namespace."""
    config = client.service_client.config
    proxy = config.http_connect_proxy_config
    return f"{proxy.target_host if proxy else config.target_host} {client.namespace}"


def way_to(address: str) -> dict[str, Any]:
    """Return the options of `Client.connect` that lead to an address: host:port, or a unix socket.

    The SDK's core reaches a unix socket only as an HTTP proxy. Credentials of the environment are another Temporal's.
    """
    if not address.startswith(UNIX):
        return {"target_host": address}
    path = "/" + address.removeprefix(UNIX).lstrip("/")
    return {
        "target_host": DEFAULT_ADDRESS,  # ignored by whoever listens
        "http_connect_proxy_config": HttpConnectProxyConfig(f"{UNIX}{path}"),
        "dns_load_balancing_config": None,
        "tls": False,
        "api_key": None,
        "rpc_metadata": {},
    }


async def prepare(client: Client, settings: TemporalSettings, *, waiting: Callable[[str], None] = _silent) -> None:
    """Create our namespace and search attributes if they are missing; existing ones are not changed.

    Raises TemporalNotPrepared if Temporal does not allow that (a managed one), with the commands to run.
    """
    wait = _FIRST_WAIT
    while True:
        try:
            await ensure_namespace(client, settings.retention)
            await ensure_search_attributes(client)
            break
        except RPCError as error:
            if error.status in {
                RPCStatusCode.PERMISSION_DENIED,
                RPCStatusCode.UNIMPLEMENTED,
                RPCStatusCode.UNAUTHENTICATED,
            }:
                raise TemporalNotPrepared(what_to_run(client.namespace, settings.retention, error)) from error
            if error.status not in PASSING | {
                RPCStatusCode.NOT_FOUND
            }:  # a new namespace is not known to all of Temporal's services at once
                raise
            waiting(f"waiting for Temporal's namespace {client.namespace}: {error.status.name} {error.message}")
        await asyncio.sleep(wait.total_seconds())
        wait = min(wait * 2, _LONGEST_WAIT)
    await search_attributes_known(client, waiting=waiting)


async def search_attributes_known(client: Client, *, waiting: Callable[[str], None] = _silent) -> None:
    """Wait until visibility accepts our search attributes; it learns of new ones up to a minute after their creation.

    Any other error of visibility is not waited for: pods start without it.
    """
    until, wait = asyncio.get_running_loop().time() + _KNOWN_WITHIN.total_seconds(), _FIRST_WAIT
    query = " AND ".join(f"{name} = {0 if kind == 'Int' else repr('')}" for name, kind in SEARCH_ATTRIBUTES)
    while True:
        try:
            await anext(list_executions(client, query, limit=_CALL_LIMIT), None)
        except (RPCError, RuntimeError) as error:
            unknown = isinstance(error, RPCError) and error.status in _NOT_KNOWN_YET
            if not unknown or asyncio.get_running_loop().time() >= until:
                _log.warning("visibility does not answer for our search attributes; going on", err=str(error))
                return
            waiting(f"waiting until Temporal knows the search attributes of namespace {client.namespace}: {error}")
        else:
            return
        await asyncio.sleep(wait.total_seconds())
        wait = min(wait * 2, _LONGEST_WAIT)


def activity_of(client: Client, workflow_id: str, activity_id: str) -> AsyncActivityHandle:
    """Return a handle to complete a workflow's pending activity from outside.

    The SDK's own handle does not know the workflow for which payloads are encrypted, so the codec would refuse it.
    """
    handle = client.get_async_activity_handle(workflow_id=workflow_id, run_id=None, activity_id=activity_id)
    return handle.with_context(
        ActivitySerializationContext(
            namespace=client.namespace,
            workflow_id=workflow_id,
            workflow_type=None,
            activity_id=activity_id,
            activity_type=None,
            activity_task_queue=None,
            is_local=False,
        )
    )
