"""Reads what a container's variables come from: the objects they name, the node's addresses, what it has for pods.

Asked by `container_preparation` before the files are made. Each object is read once for a start, in the order in which the
kubelet asks for them. What could not be had is no error here: `environment` says whether somebody needs it.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from activities.environment import Absent, Environment, Reference, Sources, references, resolve_environment
from activities.network import on_host_network
from activities.node_services import NodeServices
from activities.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from proto.temporal.requests import StartContainer


async def container_environment(services: NodeServices, request: StartContainer) -> Environment:
    """Resolve the variables of a container that is to start; raises UnresolvedVariable."""
    pod, container = request.sandbox_spec, request.container
    sources = Sources(
        pod=pod,
        pod_ips=request.host_ips if on_host_network(pod) else request.ips,
        host_ips=request.host_ips,
        allocatable=dict(services.settings.allocatable),
        objects={one: await _read(services.objects, request.pod.namespace, one) for one in references(container)},
    )
    return resolve_environment(container, sources)


async def _read(objects: ObjectSource, namespace: str, reference: Reference) -> Mapping[str, str] | Absent:
    """Read an object's text by key, or say why there is none."""
    kind, name = reference
    try:
        found = await objects.get(kind, namespace, name)
    except ObjectMissing as error:
        return Absent(str(error), missing=True)
    except ObjectRefused as error:
        return Absent(str(error), missing=False)
    data: Mapping[str, Any] = found.json.get("data") or {}
    if kind is ObjectKind.CONFIG_MAPS:
        return {key: str(value) for key, value in data.items()}
    try:
        return {key: _text(value) for key, value in data.items()}
    except (binascii.Error, ValueError):  # not told on: the error quotes what it could not read
        return Absent(f'secret "{name}" holds something that is no base64', missing=False)


def _text(encoded: str) -> str:
    """Read a Secret's value; bytes that are no UTF-8 come out as surrogates, which `container_config` turns back."""
    return base64.b64decode(encoded, validate=True).decode(errors="surrogateescape")
