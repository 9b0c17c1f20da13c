"""Connects to Temporal as the operator configured it, and creates what tempolet needs there.

Called at the start of worker and poller (`connect`, then `prepare`) and by commands that read history (`connect`).
Address, namespace, TLS and API key come from temporalio.envconfig, as in all Temporal programs: `TEMPORAL_*` in the
environment over a profile in the TOML file (`TEMPORAL_CONFIG_FILE`, `TEMPORAL_PROFILE`). If Temporal does not answer,
the client waits, because on a node everything starts at once.

An address `unix:///path` is a socket of this machine: that of the Temporal which `tempolet up` starts.
"""

import asyncio
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import AsyncActivityHandle, Client, Plugin
from temporalio.converter import ActivitySerializationContext
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import HttpConnectProxyConfig, RPCError, RPCStatusCode

from proto.temporal.names import NAMESPACE, RETENTION_DAYS, SEARCH_ATTRIBUTES
from worker.temporal.codec import data_converter
from worker.temporal.executions import list_executions
from worker.temporal.keys import KeyFile

DEFAULT_ADDRESS: Final = "127.0.0.1:7233"
UNIX: Final = "unix:"
CORE_LEVELS: Final = f"{TelemetryFilter('WARN', 'ERROR').formatted()},temporal_sdk_bridge::client=ERROR"
"""What the SDK's core logs: warnings, but not that a unix socket, as every proxy, has no addresses to balance."""
_FIRST_WAIT: Final = timedelta(milliseconds=200)
_LONGEST_WAIT: Final = timedelta(seconds=10)
_CALL_LIMIT: Final = timedelta(seconds=10)
_KNOWN_WITHIN: Final = timedelta(minutes=3)
"""Temporal refreshes its search attributes every minute."""
_NOT_KNOWN_YET: Final = frozenset({RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND})
"""Visibility's answers for new search attributes and a new namespace."""
_PASSING: Final = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.ABORTED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.UNKNOWN,
    }
)
"""Status codes of a server that is starting; with any other, waiting does not help."""

_log: Final = structlog.get_logger(__name__)


class TemporalNotPrepared(Exception):
    """Temporal refused to create what tempolet needs; the message has the commands for an administrator."""


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
    """Return address and namespace: the settings over the environment over the profile."""
    profile = ClientConfigProfile.load(
        profile=settings.profile,
        config_source=settings.config_file,
        override_env_vars=settings.environment,
    )
    options = profile.to_client_connect_config()
    options["target_host"] = settings.address or profile.address or DEFAULT_ADDRESS
    options["namespace"] = settings.namespace or profile.namespace or NAMESPACE
    return options


async def connect(
    settings: TemporalSettings,
    *,
    waiting: Callable[[str], None] = _silent,
    runtime: Runtime | None = None,
    plugins: Sequence[Plugin] = (),
    identity: str | None = None,
) -> Client:
    """Connect, waiting while Temporal does not answer; `waiting` is called each time with what is awaited.

    Raises KeyFileRefused, or RPCError for an error that waiting does not fix (credentials, TLS).
    """
    keys = KeyFile(settings.key_file, missing=settings.key_missing)
    converter = data_converter(keys, sends_only=settings.sends_only)
    options = connect_options(settings)
    address = place = options["target_host"]
    if settings.address is None and address == DEFAULT_ADDRESS:
        place += " (TEMPORAL_ADDRESS names another)"
    if runtime is None and address.startswith(UNIX):
        runtime = _quieter_runtime()
    wait = _FIRST_WAIT
    while True:
        try:
            return await Client.connect(
                **{**options, **way_to(address)},
                data_converter=converter,
                runtime=runtime,
                plugins=plugins,
                identity=identity,
            )
        except RuntimeError as error:  # raised by the SDK's core if it cannot connect
            waiting(f"waiting for Temporal at {place}: {_reason(error)}")
        except RPCError as error:
            if error.status not in _PASSING:
                raise
            waiting(f"waiting for Temporal at {place}: {error.status.name} {error.message}")
        await asyncio.sleep(wait.total_seconds())
        wait = min(wait * 2, _LONGEST_WAIT)


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
            await _ensure_namespace(client, settings.retention)
            await _ensure_search_attributes(client)
            break
        except RPCError as error:
            if error.status in {
                RPCStatusCode.PERMISSION_DENIED,
                RPCStatusCode.UNIMPLEMENTED,
                RPCStatusCode.UNAUTHENTICATED,
            }:
                raise TemporalNotPrepared(_what_to_run(client.namespace, settings.retention, error)) from error
            if error.status not in _PASSING | {
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


async def _ensure_namespace(client: Client, retention: timedelta) -> None:
    if await _namespace_exists(client):
        return
    request = RegisterNamespaceRequest(
        namespace=client.namespace, description="Pods of tempolet nodes: one workflow a pod"
    )
    request.workflow_execution_retention_period.FromTimedelta(retention)
    try:
        await client.workflow_service.register_namespace(request, timeout=_CALL_LIMIT)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:  # the poller or the worker was faster
            raise


async def _namespace_exists(client: Client) -> bool:
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace), timeout=_CALL_LIMIT
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _ensure_search_attributes(client: Client) -> None:
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), timeout=_CALL_LIMIT
    )
    there = {**listed.custom_attributes, **listed.system_attributes}
    missing = {name: _indexed(kind) for name, kind in SEARCH_ATTRIBUTES if name not in there}
    wrong = [
        f"{name} (is {IndexedValueType.Name(there[name]).removeprefix('INDEXED_VALUE_TYPE_').title()}, not {kind})"
        for name, kind in SEARCH_ATTRIBUTES
        if name in there and there[name] != _indexed(kind)
    ]
    if wrong:
        raise TemporalNotPrepared(
            f"Temporal's namespace {client.namespace} has search attributes of another type: {', '.join(wrong)}. "
            "Give tempolet a namespace of its own (TEMPORAL_NAMESPACE)"
        )
    if missing:
        try:
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing), timeout=_CALL_LIMIT
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.ALREADY_EXISTS:
                raise


def _indexed(kind: str) -> IndexedValueType.ValueType:
    return IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{kind.upper()}")


def _what_to_run(namespace: str, retention: timedelta, error: RPCError) -> str:
    attributes = " ".join(f"--name {name} --type {kind}" for name, kind in SEARCH_ATTRIBUTES)
    return (
        f"Temporal does not let tempolet prepare namespace {namespace}: {error.message}. Let an administrator run:\n"
        f"  temporal operator namespace create --namespace {namespace} --retention {retention.days}d\n"
        f"  temporal operator search-attribute create --namespace {namespace} {attributes}\n"
        "(on Temporal Cloud: tcld namespace create, tcld namespace search-attributes add)"
    )


def _reason(error: Exception) -> str:
    """Return the operating system's error from the core's nested message, or its first line."""
    text = str(error)
    cause = r"Caused by:\s+(?:0: )?(\S.*?(?:\(os error \d+\))?)\)*$"  # without the brackets around the whole
    found = re.search(rf'message: "([^"]+)"|{cause}', text, re.MULTILINE)
    return (found[1] or found[2]) if found else text.partition("\n")[0][:300]
