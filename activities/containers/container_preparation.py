"""Prepares a container: writes its files and builds the configurations for the runtime.

Called by `containers` before a container is created, and by `hook_containers` for a hook's command. First whatever
needs waiting is fetched; then the files are written in a thread and each part is built by its own pure function.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activities.containers.container_files import container_mounts
from activities.containers.environment_sources import container_environment
from activities.containers.services import ContainerServices
from activities.cri_config.container_config import ContainerInputs, container_config
from activities.cri_config.environment import Environment, UnresolvedVariable, with_device_variables
from activities.cri_config.security_context import SecurityInputs, container_security, verify_non_root
from activities.cri_config.volume_mounts import volume_devices
from activities.dra.cdi import cdi_devices
from activities.hardware.services import ContainerHardware, HardwareRefused
from activities.runtime.confidential import QUOTABLE, Redaction, quotes_confidential, redaction_for
from activities.sandbox.isolation import Isolation, isolation_of
from activities.sandbox.sandbox import describe_sandbox
from activities.volumes.types.image import check_image_sub_paths
from proto.cri.v1 import api_pb2 as cri
from proto.dra.pod_claims import container_without_claimed
from proto.kubernetes.resources.resources import container_resources, without_quota
from proto.temporal.activities.requests import StartContainer


@dataclass(frozen=True, slots=True)
class Prepared:
    """The configurations for the runtime, and the confidential values in them."""

    config: cri.ContainerConfig = field(repr=False)
    sandbox: cri.PodSandboxConfig
    hidden: Redaction = field(default_factory=Redaction)


@dataclass(frozen=True, slots=True)
class _Awaited:
    """What was fetched before any file is written."""

    environment: Environment = field(repr=False)
    hardware: ContainerHardware
    security: SecurityInputs
    isolation: Isolation
    cdi_devices: Sequence[str]
    """Those of device plugins and of its ResourceClaims."""


async def prepare(services: ContainerServices, request: StartContainer, attempt: int) -> Prepared:
    """Write a container's files and build both configurations.

    Raises OSError, ValueError, UnresolvedVariable, CriError.
    """
    try:
        plain = container_without_claimed(request.sandbox_spec, request.container)
        await services.hardware.starting(request.pod.uid, plain)
    except HardwareRefused as refused:
        raise ValueError(str(refused)) from None
    await check_image_sub_paths(services.runtime, request.container, request.volumes)
    hardware = services.hardware.of(request.pod.uid, str(request.container["name"]))
    environment = with_device_variables(await container_environment(services, request), hardware.environment)
    hidden = redaction_for(environment, request.container)
    isolation = await isolation_of(services, request.pod, request.sandbox_spec)
    cdi = await cdi_devices(services, hardware.cdi_devices, request)
    awaited = _Awaited(environment, hardware, await _security(services, request, isolation), isolation, cdi)
    verify_non_root(awaited.security)
    try:
        config, sandbox = await asyncio.to_thread(_configure, services, request, attempt, awaited)
    except UnicodeEncodeError:  # the error quotes the text
        raise UnresolvedVariable("the command or its arguments hold a value that is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        if not hidden.values:
            raise
        raise ValueError(
            hidden.hide(str(error))
        ) from None  # the path may hold a confidential value, and so may the cause
    return Prepared(config, sandbox, hidden)


async def _security(services: ContainerServices, request: StartContainer, isolation: Isolation) -> SecurityInputs:
    return SecurityInputs(
        key=request.pod,
        pod=request.sandbox_spec,
        container=request.container,
        image_user=await services.image_users.user_of(services.runtime, request.image_ref),
        node=services.settings.security,
        user_namespace=isolation.user_namespace,
        target_id=request.target_id,
        volume_groups=tuple(one.group_id for one in request.volumes if one.group_id is not None),
    )


def _configure(
    services: ContainerServices, request: StartContainer, attempt: int, awaited: _Awaited
) -> tuple[cri.ContainerConfig, cri.PodSandboxConfig]:
    settings, pod = services.settings, request.sandbox_spec
    container: Mapping[str, Any] = request.container
    environment, hardware = awaited.environment, awaited.hardware
    resources = container_resources(pod, container, settings.resources)
    config = container_config(
        ContainerInputs(
            key=request.pod,
            pod=pod,
            container=container,
            attempt=attempt,
            image_ref=request.image_ref,
            resources=without_quota(resources) if hardware.is_quota_off else resources,
            cpuset_cpus=hardware.cpuset_cpus,
            cpuset_mems=hardware.cpuset_mems,
            environment=environment.values,
            mounts=(*hardware.mounts, *container_mounts(services, request, attempt, environment.values)),
            devices=(*hardware.devices, *volume_devices(container, request.volumes)),
            annotations=hardware.annotations,
            cdi_devices=awaited.cdi_devices,
            security=container_security(awaited.security),
        )
    )
    if quotes_confidential(environment, container):
        config.annotations[QUOTABLE] = "true"
    whole = awaited.isolation.whole(pod)
    sandbox = describe_sandbox(services, request.pod, whole, request.sandbox_attempt, isolation=awaited.isolation)
    return config, sandbox.config
