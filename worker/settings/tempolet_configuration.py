"""Our own keys, in a file of our own: `--tempolet-config FILE`, kind TempoletConfiguration.

What the kubelet has a key for stays in KubeletConfiguration; only what no kubelet has stands here (Temporal, the seal of
the payloads, metrics). Asked by `config`. An unknown key is refused, for nobody but us writes this file.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from proto.temporal.names import RETENTION_DAYS
from worker.settings.go_duration import parse_duration
from worker.settings.kubelet_configuration import ConfigurationRefused
from worker.settings.yaml_document import DocumentRefused, read_document

API_VERSION: Final = "tempolet.dev/v1alpha1"
KIND: Final = "TempoletConfiguration"


def _duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Address = Annotated[str, Field(pattern=r"^(|\[[0-9a-fA-F:.]+\]:\d{1,5}|[^:\s]+:\d{1,5})$")]
"""host:port; empty switches the listener off."""


class _Keys(BaseModel):
    """Keys as the file writes them (camelCase), nothing unknown, never changed afterwards."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )


class TemporalKeys(_Keys):
    """Where Temporal is; what is left out comes from temporalio.envconfig (TEMPORAL_* and its TOML file)."""

    address: str | None = None
    namespace: str | None = None
    config_file: Path | None = None
    profile: str | None = None
    retention: Duration = timedelta(days=RETENTION_DAYS)
    """Of the namespace, when tempolet makes it: how long a gone pod's history can be read."""
    payload_key_file: Path | None = None
    """Seals every payload; `<root-dir>/tempolet/payload.keys` when left out."""


class CodecKeys(_Keys):
    """The endpoint that decodes payloads for the Temporal UI."""

    address: Address = ""
    token_file: Path | None = None
    """`<root-dir>/tempolet/codec.token` when left out."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of the Temporal UI that may ask."""


class RuntimeKeys(_Keys):
    """How hard the container runtime is driven."""

    start_limit: int = Field(default=0, ge=0)
    """Run, Create and Start calls at a time; 0 means twice the processors."""


class MetricsKeys(_Keys):
    """Where Prometheus reads."""

    bind_address: Address = ""
    """Serves /metrics, ours and those of Temporal's SDK; when left out, they stand beside healthz."""


class TempoletConfiguration(_Keys):
    """All of our own keys."""

    api_version: Literal["tempolet.dev/v1alpha1"] = API_VERSION
    kind: Literal["TempoletConfiguration"] = KIND
    temporal: TemporalKeys = TemporalKeys()
    codec: CodecKeys = CodecKeys()
    runtime: RuntimeKeys = RuntimeKeys()
    metrics: MetricsKeys = MetricsKeys()


def load_tempolet_configuration(file: Path | None) -> TempoletConfiguration:
    """Read our keys, all defaults without a file; raises ConfigurationRefused naming file and key."""
    if file is None:
        return TempoletConfiguration()
    try:
        document = read_document(file)
    except DocumentRefused as error:
        raise ConfigurationRefused(str(error)) from error
    if document.duplicates:
        raise ConfigurationRefused(f"{file}: {document.duplicates[0]}: said twice; keep one")
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.content.get(key) != wanted:
            raise ConfigurationRefused(
                f"{file}: {key} is {document.content.get(key)!r}, but {wanted} belongs there"
                + ("; a KubeletConfiguration goes to --config" if key == "kind" else "")
            )
    try:
        return TempoletConfiguration.model_validate(document.content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        what = "no such key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        raise ConfigurationRefused(f"{file}: {where}: {what}") from error
