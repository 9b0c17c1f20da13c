"""Does a worker connect to the configured Temporal, wait for it, and create what it needs once?"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import SEARCH_ATTRIBUTES
from tests.free_ports import free_port
from tests.patience import PATIENCE
from worker.standalone.gateway.carrying import serve_connections
from worker.standalone.gateway.frontend import Frontend
from worker.standalone.gateway.own_network import listen_at_path
from worker.temporal import namespace, temporal_client
from worker.temporal.namespace import TemporalNotPrepared
from worker.temporal.temporal_client import TemporalSettings, connect, place_of, prepare, way_to


def in_namespace(settings: TemporalSettings, name: str) -> TemporalSettings:
    """Use a namespace that no other test has."""
    return replace(settings, environment={"TEMPORAL_NAMESPACE": name})


async def test_the_namespace_and_search_attributes_are_made_once(settings: TemporalSettings) -> None:
    """A first start makes them with 30 days of retention; a second changes nothing."""
    client = await connect(in_namespace(settings, "fresh"))
    await prepare(client, settings)
    await prepare(client, settings)
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="fresh"))
    assert described.config.workflow_execution_retention_ttl.ToTimedelta() == settings.retention
    listed = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="fresh"))
    kinds = {name: IndexedValueType.Name(kind) for name, kind in listed.custom_attributes.items()}
    assert kinds.items() >= {name: f"INDEXED_VALUE_TYPE_{kind.upper()}" for name, kind in SEARCH_ATTRIBUTES}.items()


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        pytest.param(
            RPCError("invalid search attribute: PodNode", RPCStatusCode.INVALID_ARGUMENT, b""), True, id="new"
        ),
        pytest.param(RPCError("namespace not found", RPCStatusCode.NOT_FOUND, b""), True, id="a-new-namespace"),
        pytest.param(RPCError("no visibility", RPCStatusCode.UNAVAILABLE, b""), False, id="visibility-is-away"),
        pytest.param(RPCError("not you", RPCStatusCode.PERMISSION_DENIED, b""), False, id="visibility-is-forbidden"),
    ],
)
async def test_search_attributes_that_were_just_registered_are_waited_for(
    settings: TemporalSettings, monkeypatch: pytest.MonkeyPatch, error: RPCError, *, waits: bool
) -> None:
    """The first start of a node on PostgreSQL ended there; without visibility it starts all the same."""
    asked: list[str] = []
    told: list[str] = []
    client = await connect(in_namespace(settings, "just"))

    async def listed(_: Client, query: str, **__: object) -> AsyncIterator[object]:
        asked.append(query)
        if len(asked) < 3:
            raise error
        return
        yield  # a generator

    monkeypatch.setattr(temporal_client, "list_executions", listed)
    await prepare(client, settings, waiting=told.append)
    assert len(asked) == (3 if waits else 1)
    assert all("PodNode" in one for one in asked)
    assert len([one for one in told if "search attributes" in one]) == (2 if waits else 0)


async def test_worker_and_poller_may_prepare_at_once(settings: TemporalSettings) -> None:
    """Both start together; neither is hurt by the other's success."""
    one, two = [await connect(in_namespace(settings, "both")) for _ in range(2)]
    await asyncio.gather(prepare(one, settings), prepare(two, settings))


async def test_what_is_there_is_left_as_it_is(settings: TemporalSettings) -> None:
    """A namespace of the operator's with another retention keeps it."""
    shorter = replace(settings, retention=timedelta(days=3))
    client = await connect(in_namespace(settings, "operators"))
    await prepare(client, shorter)
    await prepare(client, settings)
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="operators"))
    assert described.config.workflow_execution_retention_ttl.ToTimedelta() == shorter.retention


async def test_a_search_attribute_of_another_type_is_named(settings: TemporalSettings) -> None:
    """It cannot be changed in place, so the message asks for a namespace of our own."""
    client = await connect(in_namespace(settings, "clash"))
    await prepare_namespace_only(client, settings)
    wrong = {"PodRestarts": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}
    request = AddSearchAttributesRequest(namespace="clash", search_attributes=wrong)
    await client.operator_service.add_search_attributes(request)
    with pytest.raises(TemporalNotPrepared, match=r"PodRestarts \(is Keyword, not Int\).*TEMPORAL_NAMESPACE"):
        await prepare(client, settings)


async def prepare_namespace_only(client: Client, settings: TemporalSettings) -> None:
    """Have the namespace, and wait until the operator service knows it too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(temporal_client, "SEARCH_ATTRIBUTES", ())
        patch.setattr(namespace, "SEARCH_ATTRIBUTES", ())
        await prepare(client, settings)


async def test_where_temporal_does_not_let_us_the_commands_are_told(
    settings: TemporalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A managed Temporal refuses: the message has the commands for its administrator."""

    async def refuse(*_: object) -> None:
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")

    monkeypatch.setattr(temporal_client, "ensure_search_attributes", refuse)
    client = await connect(in_namespace(settings, "managed"))
    with pytest.raises(TemporalNotPrepared) as told:
        await prepare(client, settings)
    assert "temporal operator namespace create --namespace managed --retention 30d" in str(told.value)
    assert "--name PodRestarts --type Int" in str(told.value)


async def test_a_temporal_that_is_away_is_waited_for(settings: TemporalSettings) -> None:
    """Each attempt reports what is awaited; the wait ends when it is cancelled."""
    address = f"127.0.0.1:{free_port()}"
    said: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(connect(replace(settings, address=address), waiting=said.put_nowait))
    for _ in range(2):
        text = await asyncio.wait_for(said.get(), PATIENCE)
        assert text == f"waiting for Temporal at {address}: Connection refused"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_environment_goes_over_the_profile(
    settings: TemporalSettings, temporal_address: str, tmp_path: Path
) -> None:
    """temporalio.envconfig's order: TEMPORAL_* first, then the file's profile, then tempolet's own namespace."""
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.default]\naddress = "127.0.0.1:1"\nnamespace = "from-file"\n')
    chosen = replace(settings, address=None, config_file=file, environment={"TEMPORAL_ADDRESS": temporal_address})
    assert (await connect(chosen)).namespace == "from-file"
    assert (await connect(settings)).namespace == "tempolet"


@pytest.mark.parametrize("written", ["unix:{}", "unix://{}"])
async def test_a_unix_socket_is_an_address(settings: TemporalSettings, tmp_path: Path, written: str) -> None:
    """As gRPC programs and Go's write it; two Temporals of one machine are two places."""
    assert settings.address
    path, port = tmp_path / "grpc.sock", int(settings.address.rpartition(":")[2])
    with listen_at_path(path) as listener:
        frontend = Frontend(port).serve
        threading.Thread(target=_serve, args=(listener, frontend), daemon=True).start()
        client = await connect(replace(settings, address=written.format(path)))
        assert await client.service_client.check_health()
        assert place_of(client) == f"unix:{path} {client.namespace}"
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with contextlib.suppress(OSError):  # the listener is closed
        serve_connections(listener, serve, 8)


async def test_what_a_socket_lacks_is_said_in_the_systems_words(settings: TemporalSettings, tmp_path: Path) -> None:
    """A person reads why Temporal is waited for."""
    said: asyncio.Queue[str] = asyncio.Queue()
    settings = replace(settings, address=f"unix://{tmp_path}/none.sock")
    connecting = asyncio.create_task(connect(settings, waiting=said.put_nowait))
    async with asyncio.timeout(PATIENCE):
        words = await said.get()
    assert words == f"waiting for Temporal at unix://{tmp_path}/none.sock: No such file or directory (os error 2)"
    assert not connecting.done()
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)


def test_a_credential_of_the_environment_is_not_for_a_socket() -> None:
    """The operator's Temporal Cloud is another one than that of this machine."""
    options = {"target_host": "x", "api_key": "secret", "tls": True} | way_to("unix:///run/x.sock")
    assert (options["api_key"], options["tls"], options["rpc_metadata"]) == (None, False, {})
    assert way_to("temporal.example:7233") == {"target_host": "temporal.example:7233"}
