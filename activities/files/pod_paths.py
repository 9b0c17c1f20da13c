"""Where a pod's files lie on the node: the kubelet's layout below root-dir and podLogsDir.

The parts of these paths come from a manifest, so each is checked to be one plain name before it becomes a path: what is
made or removed here is made and removed by root.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proto.temporal.pod import PodKey

CLAIMS: Final = "plugins/tempolet.dev~claims"
"""In a pod's folder: which volume each of its claims has brought, remembered for as long as the pod is there."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})", re.ASCII)


class NoPlainName(Exception):
    """A name of which no path is made; an activity that meets one fails with the reason InvalidPodName."""


def plain_name(value: str, what: str) -> str:
    """Answer `value` when it is one path component and nothing else; raises NoPlainName."""
    if not _PLAIN_NAME.fullmatch(value):
        raise NoPlainName(f"{what} {value[:80]!r} is no plain name, so no path is made of it")
    return value


def plugin_folder(plugin: str) -> str:
    """Name the folder of a volume plugin (k8s.io/utils strings EscapeQualifiedName)."""
    return plugin.replace("/", "~")


@dataclass(frozen=True, slots=True)
class PodPaths:
    """A pod's directories and files."""

    root_dir: Path
    pod_logs_dir: Path
    key: PodKey

    @property
    def directory(self) -> Path:
        """`pods/<uid>`, which holds everything but the logs."""
        return self.root_dir / "pods" / plain_name(self.key.uid, "pod uid")

    @property
    def logs(self) -> Path:
        """The pod's log directory; CRI log paths are relative to it."""
        parts = ((self.key.namespace, "namespace"), (self.key.name, "pod name"), (self.key.uid, "pod uid"))
        return self.pod_logs_dir / "_".join(plain_name(value, what) for value, what in parts)

    @property
    def etc_hosts(self) -> Path:
        """The managed hosts file that every container of the pod mounts."""
        return self.directory / "etc-hosts"

    def volumes(self, plugin: str) -> Path:
        """Hold the volumes of one plugin, whose name has a slash (`kubernetes.io/empty-dir`)."""
        return self.directory / "volumes" / plugin_folder(plugin)

    def plugin_state(self, plugin: str) -> Path:
        """Hold what a plugin keeps of this pod beside its volumes."""
        return self.directory / "plugins" / plugin_folder(plugin)

    def container_logs(self, container: str) -> Path:
        """Hold a container's `<attempt>.log` files."""
        return self.logs / plain_name(container, "container name")

    def container(self, container: str) -> Path:
        """Hold a container's termination messages."""
        return self.directory / "containers" / plain_name(container, "container name")

    def termination_message(self, container: str, attempt: int) -> Path:
        """Name the file that one run of a container sees as its terminationMessagePath."""
        return self.container(container) / f"{attempt:08x}"
