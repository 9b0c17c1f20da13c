"""Our own configuration file: `--tempolet-config FILE`, kind TempoletConfiguration.

It has only settings that a kubelet does not have (Temporal, encryption of payloads, metrics); the others are in
KubeletConfiguration. Unknown keys are refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NewType, get_type_hints

from activities.images.access.image_names import InvalidImageName, with_default_tag
from proto.kubernetes.go_duration import parse_duration
from proto.kubernetes.resources.quantity import NANO, QuantityError, parse_quantity
from proto.temporal.names import RETENTION_DAYS
from worker.documents.yaml_document import DocumentRefused, read_document
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.kubelet.schema import WrongValue, check_fields

API_VERSION: Final = "tempolet.dev/v1alpha1"
KIND: Final = "TempoletConfiguration"
_ADDRESS: Final = re.compile(r"\[[0-9a-fA-F:.]+\]:\d{1,5}|[^:\s]+:\d{1,5}|", re.ASCII)


BY_COMMAND: Final = "ByCommand"
AT_START: Final = "AtStart"
SYNC_NORMAL: Final = "Normal"
SYNC_FULL: Final = "Full"
SMALLEST_DATABASE: Final = 64 * 1024 * 1024
SHORTEST_AWAY: Final = timedelta(seconds=1)
LONGEST_AWAY: Final = timedelta(hours=1)
LONGEST_IMAGE: Final = 800
"""Maximum bytes of a name in the prepull list, which becomes part of an activity's id."""


Address = NewType("Address", str)
"""host:port."""
OFF: Final = Address("")
"""No listener."""


@dataclass(frozen=True, slots=True)
class TemporalKeys:
    """Temporal's address; what is left out comes from temporalio.envconfig (TEMPORAL_* and its TOML file)."""

    address: str | None = None
    namespace: str | None = None
    config_file: Path | None = None
    profile: str | None = None
    retention: timedelta = timedelta(days=RETENTION_DAYS)
    """Of the namespace, if tempolet creates it: how long the history of a pod that is gone can be read."""
    away_after: timedelta = timedelta(seconds=5)
    """How long something is due, while Temporal commits nothing, before this node leads its pods itself."""
    database_file: Path | None = None
    """The database of an embedded Temporal, which has the histories of all pods; `tempolet up` sets it."""
    payload_key_file: Path | None = None
    """Encrypts every payload; default `<root-dir>/tempolet/payload.keys`."""


@dataclass(frozen=True, slots=True)
class CodecKeys:
    """The endpoint that decodes payloads for the Temporal UI."""

    address: Address = OFF
    token_file: Path | None = None
    """Default `<root-dir>/tempolet/codec.token`."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of the Temporal UI that may use it."""
    socket: Path | None = None
    """A unix socket of root's instead of an address; whoever can open it needs no token."""


@dataclass(frozen=True, slots=True)
class RuntimeKeys:
    """Load on the container runtime."""

    start_limit: int = 0
    """Concurrent Run, Create and Start calls; 0 means twice the number of processors."""


@dataclass(frozen=True, slots=True)
class ObjectsKeys:
    """The objects that manifests of a standalone node refer to."""

    folder: Path | None = None
    """Default `objects` beside the manifests (staticPodPath)."""


@dataclass(frozen=True, slots=True)
class MetricsKeys:
    """Metrics for Prometheus."""

    bind_address: Address = OFF
    """Serves /metrics, ours and those of Temporal's SDK; by default they are served with healthz."""


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The process's own log, and links for log agents."""

    legacy_container_logs_dir: Path | None = Path("/var/log/containers")
    """Folder of links to each container's log by pod, name and id; empty: none."""
    file: Path | None = None
    """The file that stderr goes to, rotated as long as it does; none: stderr is left to whoever redirected it."""


@dataclass(frozen=True, slots=True)
class ImageKeys:
    """Images that the node keeps whatever pods it has."""

    prepull: tuple[str, ...] = ()
    """Pulled in the background when the node starts, one after the other."""
    look_every: timedelta = timedelta(minutes=5)
    """Interval of image garbage collection: the kubelet's, which has no key for it."""


@dataclass(frozen=True, slots=True)
class HookKeys:
    """Hooks by annotation, which no admission of an API server sees."""

    allowed_on_api_pods: bool = False
    """Whether pods of an API server may have them; manifests always may."""


@dataclass(frozen=True, slots=True)
class BehaviourKeys:
    """When runs follow the behaviours of a new release; from then on the previous release cannot run them."""

    commit: str = BY_COMMAND
    """ByCommand: by `tempolet behaviour --commit`; AtStart: as soon as a worker of the release starts."""


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """How much the histories of pods may take, and what a power loss may take of them."""

    database_limit: str = "5Gi"
    """Of `temporal.databaseFile`: above nine tenths of it, what closed first is deleted before its retention is over."""
    database_sync: str = SYNC_NORMAL
    """Whether an embedded Temporal has each commit on disk before it goes on; `tempolet up` starts it so."""


@dataclass(frozen=True, slots=True)
class TempoletConfiguration:
    """All of our own keys, in the file as camelCase."""

    temporal: TemporalKeys = TemporalKeys()
    codec: CodecKeys = CodecKeys()
    runtime: RuntimeKeys = RuntimeKeys()
    objects: ObjectsKeys = ObjectsKeys()
    metrics: MetricsKeys = MetricsKeys()
    logs: LogKeys = LogKeys()
    images: ImageKeys = ImageKeys()
    hooks: HookKeys = HookKeys()
    behaviour: BehaviourKeys = BehaviourKeys()
    history: HistoryKeys = HistoryKeys()


def load_tempolet_configuration(file: Path | None) -> TempoletConfiguration:
    """Read our keys, all defaults without a file; raises ConfigurationRefused naming file and key."""
    if file is None:
        return TempoletConfiguration()
    try:
        document = read_document(file)
    except DocumentRefused as error:
        raise ConfigurationRefused(str(error)) from error
    if document.duplicates:
        raise ConfigurationRefused(f"{file}: {document.duplicates[0]}: set twice; remove one")
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.content.get(key) != wanted:
            raise ConfigurationRefused(
                f"{file}: {key} is {document.content.get(key)!r}; must be {wanted}"
                + ("; pass a KubeletConfiguration by --config" if key == "kind" else "")
            )
    try:
        return _checked(tempolet_configuration(document.content))
    except WrongValue as error:
        raise ConfigurationRefused(f"{file}: {error}") from error


def _checked(configuration: TempoletConfiguration) -> TempoletConfiguration:
    """Check the rules beyond a key's type; raises WrongValue naming the key."""
    for index, image in enumerate(configuration.images.prepull):
        try:
            with_default_tag(image)
        except InvalidImageName as error:
            raise WrongValue(f"images.prepull[{index}]: {error}") from error
        if len(image.encode()) > LONGEST_IMAGE:
            raise WrongValue(f"images.prepull[{index}]: {len(image.encode())} bytes; the maximum is {LONGEST_IMAGE}")
    if configuration.images.look_every < timedelta(seconds=1):
        raise WrongValue("images.lookEvery: less than a second; 5m is the kubelet's own interval")
    if not SHORTEST_AWAY <= configuration.temporal.away_after <= LONGEST_AWAY:
        raise WrongValue("temporal.awayAfter: it is between 1s and 1h; 5s is longer than a failover of Temporal")
    try:
        if parse_quantity(configuration.history.database_limit).nanos < SMALLEST_DATABASE * NANO:
            raise WrongValue(f"history.databaseLimit: {configuration.history.database_limit}; the minimum is 64Mi")
    except QuantityError as error:
        raise WrongValue(f"history.databaseLimit: {error}") from error
    if (sync := configuration.history.database_sync) not in {SYNC_NORMAL, SYNC_FULL}:
        raise WrongValue(f"history.databaseSync: {sync!r}; it is {SYNC_NORMAL} or {SYNC_FULL}")
    if (commit := configuration.behaviour.commit) not in {BY_COMMAND, AT_START}:
        raise WrongValue(f"behaviour.commit: {commit!r}; it is {BY_COMMAND} or {AT_START}")
    return configuration


def tempolet_configuration(content: Mapping[str, Any]) -> TempoletConfiguration:
    """Parse our keys from a document's content; raises WrongValue naming the key."""
    type_meta = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    checked = check_fields(content, type_meta | _table(TempoletConfiguration))
    if checked.unknown:
        raise WrongValue(f"{checked.unknown[0]}: no such key")
    configuration: TempoletConfiguration = _section(TempoletConfiguration, checked.content, "")
    return configuration


def _table(section: type) -> dict[str, Any]:
    """Return the schema for `check_fields`."""
    return {key: _kind(kind) for key, (_, kind) in _keys(section).items()}


def _kind(kind: Any) -> dict[str, Any]:
    if isinstance(kind, type) and is_dataclass(kind):
        return {"type": "object", "fields": _table(kind)}
    if kind == tuple[str, ...]:
        return {"type": "list", "of": {"type": "string"}}
    return {"type": {int: "uint32", bool: "bool", timedelta: "duration"}.get(kind, "string")}


def _section(section: type, content: Mapping[str, Any], path: str) -> Any:
    """Build a section from checked values; its defaults apply to keys that are not set."""
    keys = _keys(section)
    return section(
        **{keys[key][0]: _value(keys[key][1], value, f"{path}{key}") for key, value in content.items() if key in keys}
    )


def _value(kind: Any, value: Any, path: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return _section(kind, value, f"{path}.")
    if kind is Address and not _ADDRESS.fullmatch(value):
        raise WrongValue(f"{path}: {value!r} is not an address: write host:port, an IPv6 host in brackets")
    if kind is timedelta:
        return parse_duration(value)
    if kind == Path | None:
        return Path(value) if value else None
    return tuple(value) if isinstance(value, list) else value


def _keys(section: type) -> dict[str, tuple[str, Any]]:
    """Yield each key as written in the file, with our name for it and its type."""
    hints = get_type_hints(section)
    return {
        re.sub("_(.)", lambda letter: letter[1].upper(), one.name): (one.name, hints[one.name])
        for one in fields(section)
    }
