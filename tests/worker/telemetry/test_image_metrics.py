"""Do dashboards made for a kubelet find a node's image pulls?"""

import pytest

from worker.telemetry.image_metrics import size_label
from worker.telemetry.metrics import Metrics


@pytest.mark.parametrize(
    ("size", "label"),
    [
        (0, "N/A"),
        (1, "0-10MB"),
        (10 << 20, "0-10MB"),
        ((10 << 20) + 1, "10MB-100MB"),
        (2 << 30, "1GB-5GB"),
        (101 << 30, "GT100GB"),
    ],
)
def test_sizes(size: int, label: str) -> None:
    """The kubelet's labels; the lower bound is exclusive."""
    assert size_label(size) == label


def test_what_is_told() -> None:
    """Pulls by size, providers by name, and the configuration's hash; no series before the first."""
    metrics = Metrics("node-1")
    assert "plugin_name" not in metrics.render().decode()
    metrics.images.pulled(1.5, 20 << 20)
    metrics.images.provider_ran("ecr", 0.2, failed=True)
    metrics.images.providers_configured("sha256:1")
    told = metrics.render().decode()
    for line in (
        'kubelet_image_pull_duration_seconds_count{image_size_in_bytes="10MB-100MB"} 1.0',
        'kubelet_credential_provider_plugin_duration_count{plugin_name="ecr"} 1.0',
        'kubelet_credential_provider_plugin_errors_total{plugin_name="ecr"} 1.0',
        'kubelet_credential_provider_config_info{hash="sha256:1"} 1.0',
    ):
        assert line in told
