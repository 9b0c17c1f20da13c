"""The operator's own configuration files of a standalone node, and its credential providers.

Read by the command line before anything is started or stopped, so that an error in a file is reported with that file's
name. The keys are stored with the node's settings, and written, with lower precedence than those that `up` sets itself,
into the files of worker and poller (`node_config.py`); so an edited file takes effect when a node is started, never in
between.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from worker.daemon.config import load_node_config
from worker.documents.yaml_document import DocumentRefused, read_document
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused, resolve_paths

KUBELET_KEYS_OF_UP: Final = {
    "staticPodPath": "lies below --state-dir",
    "podLogsDir": "lies below --state-dir",
    "containerRuntimeEndpoint": "is --container-runtime-endpoint",
    "cgroupRoot": "is --cgroup-root",
    "cgroupDriver": "is the runtime's",
    "healthzBindAddress": "is loopback",
    "healthzPort": "is --healthz-port",
}
TEMPOLET_KEYS_OF_UP: Final = {
    "temporal": "is the node's own: --temporal-port, --state-dir",
    "codec": "is --codec-port",
    "objects": "lies below --state-dir",
    "logs": "lies below --state-dir",
    "metrics": "stands beside healthz: --healthz-port",
}


@dataclass(frozen=True, slots=True)
class GivenConfiguration:
    """What was given; keys as in the files, paths absolute."""

    kubelet_configuration: Mapping[str, Any] = field(default_factory=dict)
    tempolet_configuration: Mapping[str, Any] = field(default_factory=dict)
    image_credential_provider_config: str = ""
    image_credential_provider_bin_dir: str = ""

    def differences(self, other: "GivenConfiguration") -> Iterator[str]:
        """Name the differences to another one: for files, the keys."""
        for name in (one.name for one in fields(self)):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours == theirs:
                continue
            if not isinstance(ours, Mapping):
                yield name
                continue
            changed = [key for key in sorted({*ours, *theirs}) if ours.get(key) != theirs.get(key)]
            yield f"{name}: {', '.join(changed)}"


def read_given(flags: Flags) -> tuple[GivenConfiguration, tuple[str, ...]]:
    """Read and check the files named by the flags; returns them with warnings.

    Raises ConfigurationRefused for an invalid file, or a key that `up` sets itself.
    """
    kubelet = _content(flags.config, KUBELET_KEYS_OF_UP)
    tempolet = _content(flags.tempolet_config, TEMPOLET_KEYS_OF_UP)
    warnings = load_node_config(flags).warnings
    if flags.config is not None:
        resolve_paths(kubelet, flags.config.absolute().parent)
    given = GivenConfiguration(
        kubelet,
        tempolet,
        _absolute(flags.image_credential_provider_config),
        _absolute(flags.image_credential_provider_bin_dir),
    )
    return given, warnings


def _content(file: Path | None, ours: Mapping[str, str]) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        content = read_document(file).content
    except DocumentRefused as error:
        raise ConfigurationRefused(str(error)) from error
    taken = [f"{key} (it {what})" for key, what in ours.items() if key in content]
    if taken:
        raise ConfigurationRefused(f"{file}: `tempolet up` sets these keys itself, take them out: {', '.join(taken)}")
    return {key: value for key, value in content.items() if key not in ("apiVersion", "kind")}


def _absolute(path: Path | None) -> str:
    return str(path.absolute()) if path is not None else ""
