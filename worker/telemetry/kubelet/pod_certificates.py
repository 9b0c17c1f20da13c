"""Certificates of pods by signer and state (pkg/kubelet/metrics/collectors podcertificate_metrics.go).

Part of `Metrics`.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.families import Families


class PodCertificateStates:
    """The counts; may be called from any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._states = Families(registry).gauge(
            "kubelet_podcertificate_states",
            "Gauge vector reporting the number of pod certificate projected volume sources, faceted by signer_name and state.",
            "signer_name",
            "state",
        )

    def show(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Show how many there are."""
        self._states.clear()
        for names, count in counts.items():
            self._states.labels(*names).set(count)
