"""All that the runtime is told of a container: its files made, its parts built, one after the other.

Asked by `containers` before a creation and by `hook_containers` for a command of a hook. What a part needs from elsewhere is
awaited first; then the files are made in a thread and each part is built by its own pure builder.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from activities.container_config import ContainerInputs, container_config
from activities.container_files import container_mounts
from activities.environment import resolve_environment
from activities.node_services import NodeServices
from activities.sandbox import describe_sandbox
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.resources import container_resources
from proto.temporal.requests import StartContainer


async def prepare(
    services: NodeServices, request: StartContainer, attempt: int
) -> tuple[cri.ContainerConfig, cri.PodSandboxConfig]:
    """Make a container's files and build both configurations. Raises OSError, ValueError, UnresolvedVariable."""
    return await asyncio.to_thread(_configure, services, request, attempt)


def _configure(
    services: NodeServices, request: StartContainer, attempt: int
) -> tuple[cri.ContainerConfig, cri.PodSandboxConfig]:
    settings, pod = services.settings, request.sandbox_spec
    container: Mapping[str, Any] = request.container
    environment = resolve_environment(container.get("env") or ())
    config = container_config(
        ContainerInputs(
            key=request.pod,
            pod=pod,
            container=container,
            attempt=attempt,
            image_ref=request.image_ref,
            resources=container_resources(pod, container, settings.resources),
            environment=environment,
            mounts=container_mounts(services, request, attempt, environment),
            cgroup_v2=services.cgroups.v2,
            seccomp_default=settings.seccomp_default,
            target_id=request.target_id,
        )
    )
    return config, describe_sandbox(services, request.pod, pod, request.sandbox_attempt)
