"""Where activities say how long a volume or a pod's cgroup took, for the kubelet's metrics of that name; nobody listens unless the worker does."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from proto.temporal.pod import PodJson

_PLUGINS: Final = {
    "emptyDir": "kubernetes.io/empty-dir",
    "hostPath": "kubernetes.io/host-path",
    "configMap": "kubernetes.io/configmap",
    "downwardAPI": "kubernetes.io/downward-api",
    "persistentVolumeClaim": "persistentVolumeClaim",
    "ephemeral": "persistentVolumeClaim",
}
"""By the pod's word for a volume; what is missing is called as in the pod. Of a claim the plugin is known later only."""
MOUNT: Final = "volume_mount"
UNMOUNT: Final = "volume_unmount"


def _unheard(*_: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Timings:
    """Who listens; called in any thread."""

    volume: Callable[[str, str, float, bool], None] = _unheard
    """Plugin, operation, seconds, failed."""
    cgroup: Callable[[str, float], None] = _unheard
    """create, update or destroy, and the seconds."""

    @contextmanager
    def of_volume(self, operation: str, kind: str) -> Iterator[None]:
        """Time what is done with a volume; one that is given up has failed."""
        start, failed = time.perf_counter(), True
        try:
            yield
            failed = False
        finally:
            self.volume(plugin_of(kind), operation, time.perf_counter() - start, failed)


def plugin_of(kind: str) -> str:
    """Name the plugin of a volume's type, as the kubelet's labels do."""
    return _PLUGINS.get(kind, f"kubernetes.io/{kind}")


def volume_kind(volume: PodJson) -> str:
    """Say by which word a pod calls a volume's type; empty: none."""
    return next((field for field in volume if field != "name"), "")
