"""Rotation of container logs: the four keys containerLog… of KubeletConfiguration.

The limits are the kubelet's (apis/config/validation/validation.go and logs/container_log_manager.go). A negative size
disables rotation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from proto.kubernetes.go_duration import format_duration
from proto.kubernetes.resources.quantity import QuantityError, parse_quantity
from worker.settings.kubelet.configuration import KubeletConfiguration

_SHORTEST: Final = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """When a container's log is rotated, and how many files are kept."""

    max_size: int = 10 * 1024 * 1024
    """Bytes; negative: never."""
    max_files: int = 5
    max_workers: int = 1
    """Maximum number of concurrent rotations."""
    monitor_interval: timedelta = timedelta(seconds=10)


DEFAULT_CONTAINER_LOGS: Final = ContainerLogs()


def container_logs(kubelet: KubeletConfiguration) -> ContainerLogs:
    """Read the four validated keys."""
    return ContainerLogs(
        parse_quantity(kubelet["containerLogMaxSize"]).value,
        kubelet["containerLogMaxFiles"],
        kubelet["containerLogMaxWorkers"],
        kubelet["containerLogMonitorInterval"],
    )


def container_logs_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List the values that are out of bounds."""
    size = kubelet["containerLogMaxSize"]
    try:
        parse_quantity(size)
    except QuantityError as error:
        yield f"containerLogMaxSize: {size!r}: {error}"
    if kubelet["containerLogMaxFiles"] <= 1:
        yield f"containerLogMaxFiles: {kubelet['containerLogMaxFiles']}, but it must be above 1"
    if kubelet["containerLogMaxWorkers"] < 1:
        yield f"containerLogMaxWorkers: {kubelet['containerLogMaxWorkers']}, but it must be 1 or more"
    if (interval := kubelet["containerLogMonitorInterval"]) < _SHORTEST:
        yield f"containerLogMonitorInterval: {format_duration(interval)}, but it must be 3s or longer"
