"""What tempolet needs in Temporal: its namespace and search attributes."""

from datetime import timedelta
from typing import Final

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from proto.temporal.names import SEARCH_ATTRIBUTES

_CALL_LIMIT: Final = timedelta(seconds=10)


class TemporalNotPrepared(Exception):
    """Temporal refused to create what tempolet needs; the message has the commands for an administrator."""


async def ensure_namespace(client: Client, retention: timedelta) -> None:
    """Create the client's namespace if it is missing; raises RPCError."""
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


async def ensure_search_attributes(client: Client) -> None:
    """Create those that are missing; raises RPCError, and TemporalNotPrepared if one has another type."""
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


def what_to_run(namespace: str, retention: timedelta, error: RPCError) -> str:
    """Say what an administrator runs where Temporal does not let us."""
    attributes = " ".join(f"--name {name} --type {kind}" for name, kind in SEARCH_ATTRIBUTES)
    return (
        f"Temporal does not let tempolet prepare namespace {namespace}: {error.message}. Let an administrator run:\n"
        f"  temporal operator namespace create --namespace {namespace} --retention {retention.days}d\n"
        f"  temporal operator search-attribute create --namespace {namespace} {attributes}\n"
        "(on Temporal Cloud: tcld namespace create, tcld namespace search-attributes add)"
    )
