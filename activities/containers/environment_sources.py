"""Reads the sources of a container's variables: objects, addresses of the node, allocatable resources, files.

Called by `container_preparation` before files are written. Each object is read once per start, in the kubelet's order.
A missing source is no error here: `environment` decides whether a variable needs it.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from activities.containers.env_files import EnvFileRefused, read_variable
from activities.containers.services import ContainerServices
from activities.cri_config.environment import (
    Absent,
    Environment,
    FileReference,
    Reference,
    Sources,
    UnresolvedVariable,
    file_references,
    references,
    resolve_environment,
)
from activities.cri_config.service_links import ServicesUnknown, service_variables
from activities.network.network import on_host_network
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from proto.kubernetes.source_annotations import SOURCE_ANNOTATION
from proto.temporal.activities.requests import StartContainer


async def container_environment(services: ContainerServices, request: StartContainer) -> Environment:
    """Resolve the variables of a container that is about to start; raises UnresolvedVariable."""
    pod, container = request.sandbox_spec, request.container
    services_known = await _services(services, request)
    sources = Sources(
        pod=pod,
        pod_ips=request.host_ips if on_host_network(pod) else request.ips,
        host_ips=request.host_ips,
        allocatable=dict(services.settings.allocatable),
        objects={one: await _read(services.objects, request.pod.namespace, one) for one in references(container)},
        files=await _files(request, file_references(container)),
        services=services_known,
    )
    return resolve_environment(container, sources)


async def _services(services: ContainerServices, request: StartContainer) -> Mapping[str, str]:
    """Return the variables of Services; raises UnresolvedVariable.

    A static pod does not wait for the API server, because it may be the API server.
    """
    metadata, spec = request.sandbox_spec.get("metadata") or {}, request.sandbox_spec.get("spec") or {}
    try:
        known = await services.service_links.services()
    except ServicesUnknown as error:
        if (metadata.get("annotations") or {}).get(SOURCE_ANNOTATION, "api") != "api":
            return {}
        words = "services have not yet been read at least once, cannot construct envvars"
        raise UnresolvedVariable(f"{words}: {error}") from error
    return service_variables(known, request.pod.namespace, links=spec.get("enableServiceLinks") is not False)


async def _read(objects: ObjectSource, namespace: str, reference: Reference) -> Mapping[str, str] | Absent:
    """Read an object's text values by key, or say why there are none."""
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
    except (binascii.Error, ValueError):  # no cause: the error quotes what it could not read
        return Absent(f'secret "{name}" holds something that is not base64', missing=False)


async def _files(request: StartContainer, wanted: Sequence[FileReference]) -> Mapping[FileReference, str | Absent]:
    """Read variables from files in the pod's volumes, without a cache: a container may write them meanwhile."""
    known = {one.name: one for one in request.volumes}
    found: dict[FileReference, str | Absent] = {}
    for volume, path, key in wanted:
        if volume not in known:
            words = f'cannot find the volume "{volume}" referenced by FileKeyRef'
            found[volume, path, key] = Absent(words, missing=True)
            continue
        try:
            found[volume, path, key] = await asyncio.to_thread(read_variable, Path(known[volume].path), path, key)
        except EnvFileRefused as error:
            found[volume, path, key] = Absent(
                f"couldn't parse env file {path} of volume {volume}: {error}", missing=True
            )
    return found


def _text(encoded: str) -> str:
    """Decode a Secret's value; bytes that are not UTF-8 become surrogates, which `container_config` turns back."""
    return base64.b64decode(encoded, validate=True).decode(errors="surrogateescape")
