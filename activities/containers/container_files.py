"""Writes the files that a container needs at start: log folder, hosts file, termination message file.

Called by StartContainer in a thread. A second start of the same attempt writes the same files again.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from activities.containers.services import ContainerServices
from activities.cri_config.volume_mounts import is_covered, volume_mounts
from activities.network.network import hosts_file, on_host_network
from activities.runtime.termination_messages import message_mount
from activities.volumes.subpaths import mount_sub_paths
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.activities.requests import StartContainer

HOSTS_PATH: Final = "/etc/hosts"
_HOSTS_MODE: Final = 0o644
_MESSAGE_MODE: Final = 0o666
"""Writable by all: the container may run as any user."""


def container_mounts(
    services: ContainerServices, request: StartContainer, attempt: int, environment: Mapping[str, str]
) -> list[cri.Mount]:
    """Write a container's files and return the mounts for them. Raises OSError, SubPathFailed, UnmountableVolume."""
    paths = services.paths(request.pod)
    container = request.container
    name = str(container["name"])
    paths.container_logs(name).mkdir(parents=True, exist_ok=True)
    mounts: list[cri.Mount] = []
    mounts += volume_mounts(
        container, request.volumes, mount_sub_paths(paths.directory, container, request.volumes, environment)
    )
    shares_network = on_host_network(request.sandbox_spec)
    node_hosts = services.settings.node_hosts.read_text(errors="replace") if shares_network else ""
    content = hosts_file(request.sandbox_spec, request.ips, node_hosts, cluster_domain=services.settings.cluster_domain)
    if content is not None and not is_covered(container, HOSTS_PATH):
        paths.directory.mkdir(
            mode=0o750, parents=True, exist_ok=True
        )  # normally made already, but it may have been removed
        _write(paths.etc_hosts, content, _HOSTS_MODE)
        mounts.append(cri.Mount(container_path=HOSTS_PATH, host_path=str(paths.etc_hosts)))
    if message_path := container.get("terminationMessagePath"):
        paths.container(name).mkdir(mode=0o750, parents=True, exist_ok=True)
        message = paths.termination_message(name, attempt)
        _write(message, "", _MESSAGE_MODE)
        mounts.append(cri.Mount(container_path=message_mount(message_path), host_path=str(message)))
    return mounts


def _write(path: Path, content: str, mode: int) -> None:
    """Write a file in place: running containers have this inode mounted and must never see it empty.

    Links are refused.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.truncate()
