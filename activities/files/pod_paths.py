"""The paths of a pod's files: the kubelet's layout below root-dir and podLogsDir.

Parts of these paths come from a manifest, so each is checked to be one plain name: root creates and removes what is
there.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proto.temporal.pod import PodKey

CLAIMS: Final = "plugins/tempolet.dev~claims"
"""In a pod's folder: the PersistentVolume of each of its claims, for as long as the pod exists."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})", re.ASCII)
_LONGEST_COMPONENT: Final = 255


class UnsafeName(Exception):
    """A name that is unsafe in a path; activities fail with the reason InvalidPodName."""


def plain_name(value: str, what: str) -> str:
    """Return `value` if it is a single path component; raises NoPlainName."""
    if not _PLAIN_NAME.fullmatch(value):
        raise UnsafeName(f"{what} {value[:80]!r} is not a plain name, so it cannot be part of a path")
    return value


def path_component(value: str, what: str) -> str:
    """Return `value` if it is a single path component, of whatever characters; raises UnsafeName."""
    encoded = value.encode(errors="replace")
    if not 0 < len(encoded) <= _LONGEST_COMPONENT or b"/" in encoded or b"\0" in encoded or value in (".", ".."):
        raise UnsafeName(f"{what} {value[:80]!r} cannot be part of a path")
    if encoded.decode() != value:
        raise UnsafeName(f"{what} {value[:80]!r} is no text")
    return value


def plugin_folder(plugin: str) -> str:
    """Return the folder name of a volume plugin (k8s.io/utils strings EscapeQualifiedName)."""
    return plugin.replace("/", "~")


@dataclass(frozen=True, slots=True)
class PodPaths:
    """A pod's directories and files."""

    root_dir: Path
    pod_logs_dir: Path
    key: PodKey

    @property
    def directory(self) -> Path:
        """`pods/<uid>`, which has everything but the logs."""
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
        """Return the folder of one plugin's volumes; plugin names have a slash (`kubernetes.io/empty-dir`)."""
        return self.directory / "volumes" / plugin_folder(plugin)

    def plugin_state(self, plugin: str) -> Path:
        """Return the folder for a plugin's own files about this pod."""
        return self.directory / "plugins" / plugin_folder(plugin)

    def container_logs(self, container: str) -> Path:
        """Return the folder of a container's `<attempt>.log` files."""
        return self.logs / plain_name(container, "container name")

    @property
    def containers(self) -> Path:
        """The folder of all containers' termination messages."""
        return self.directory / "containers"

    def container(self, container: str) -> Path:
        """Return the folder of a container's termination messages."""
        return self.containers / plain_name(container, "container name")

    def termination_message(self, container: str, attempt: int) -> Path:
        """Return the file that one run of a container has as its terminationMessagePath."""
        return self.container(container) / f"{attempt:08x}"
