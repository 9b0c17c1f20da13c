"""Whether a volume is mounted with the SELinux label of its pod, instead of having its files labelled one by one; pure but for the last function.

The rules are the kubelet's with its default gates (pkg/volume/util/selinux.go, cache/desired_state_of_world.go): only a volume that one pod
alone may have is mounted so. Without SELinux there is no default label, and no volume has one.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from activities.files.selinux import selinux_enabled
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.kubernetes.pod_containers import every_container

_RECURSIVE: Final = "Recursive"
_ALONE: Final = ("ReadWriteOncePod",)
_MOST: Final = 64 * 1024
_PARTS: Final = 4


def mount_label(labels: Collection[str], access_modes: Collection[str], policy: str, *, by_driver: bool) -> str:
    """Return the label to mount a volume with, or ""; `labels` are those of the containers that use it.

    `policy` is the pod's seLinuxChangePolicy, `by_driver` the CSIDriver's seLinuxMount. Raises VolumeFailed for several labels.
    """
    if tuple(access_modes) != _ALONE:
        return ""
    different = sorted(set(labels))
    if len(different) > 1:
        raise VolumeFailed(f"multiple SELinux labels found: {','.join(different)}")
    return different[0] if different and by_driver and policy != _RECURSIVE else ""


def container_labels(pod: Mapping[str, Any], volume: str, default: str) -> Iterator[str]:
    """Yield the file label of each container that mounts a volume and says what it wants (GetPodVolumeNames).

    `default` is the system's for containers' files. A container that names no level gets a random one from its runtime, which nobody
    knows here: its volumes are labelled by the runtime.
    """
    spec = pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("seLinuxOptions") or {}
    for container in every_container(spec):
        options = (container.get("securityContext") or {}).get("seLinuxOptions") or of_pod
        if options.get("level") and any(one.get("name") == volume for one in container.get("volumeMounts") or ()):
            yield file_label(options, default)


def file_label(options: Mapping[str, Any], default: str) -> str:
    """Return the label of the files of a process with these options: their type is the system's (label_linux.go InitLabels)."""
    user, role, kind, level = default.split(":", _PARTS - 1)
    return ":".join((str(options.get("user") or user), role, kind, str(options.get("level") or level)))


def default_file_label(root: Path = Path("/")) -> str:
    """Return the system's label for containers' files; "" without SELinux, and if it says none (selinux_linux.go loadLabels)."""
    if not selinux_enabled(root):
        return ""
    kind = _assigned(root / "etc/selinux/config").get("SELINUXTYPE", "")
    of_policy = root / "etc/selinux" / kind / "contexts/lxc_contexts"
    found = _assigned(root / "usr/share/containers/selinux/contexts") or _assigned(of_policy)
    label = found.get("file", "")
    return label if label.count(":") >= _PARTS - 1 else ""


def _assigned(file: Path) -> dict[str, str]:
    """Read the assignments of a file; none if it cannot be read."""
    try:
        with file.open("rb") as opened:
            lines = opened.read(_MOST).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in map(str.strip, lines) if not line.startswith((";", "#")))
    return {name.strip(): value.strip().strip('"') for name, equals, value in pairs if equals}
