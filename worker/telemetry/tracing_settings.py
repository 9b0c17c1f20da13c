"""Whether and where spans are exported; `tracing` loads OpenTelemetry only if there is a destination."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_ENVIRONMENT: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Service name and destination: KubeletConfiguration's `tracing` block, or OTEL_* in the environment."""

    service: str
    """tempolet-worker or tempolet-poller."""
    node: str
    endpoint: str | None = None
    """host:port of an OTLP collector, without TLS, as in the kubelet."""
    sampling_rate_per_million: int = 0

    def wanted(self, environment: Mapping[str, str]) -> bool:
        """Report whether there is a destination for spans."""
        if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return False
        if self.endpoint is not None:
            return self.sampling_rate_per_million > 0
        return any(environment.get(name) for name in _ENVIRONMENT) and environment.get("OTEL_TRACES_EXPORTER") != "none"
