"""Is a metric written as a kubelet writes it?"""

import pytest
from prometheus_client import CollectorRegistry, Gauge

from worker.telemetry.kubelet.families import BETA, Families, rendered


@pytest.fixture
def registry() -> CollectorRegistry:
    """Return an empty registry."""
    return CollectorRegistry()


def lines(registry: CollectorRegistry) -> list[str]:
    """Render it."""
    return rendered(registry).decode().splitlines()


def test_stability_comes_first(registry: CollectorRegistry) -> None:
    """As in component-base/metrics."""
    Families(registry).gauge("kubelet_a", "One.")
    Families(registry, BETA).gauge("kubelet_b", "Two.")
    assert [one for one in lines(registry) if "HELP" in one] == [
        "# HELP kubelet_a [ALPHA] One.",
        "# HELP kubelet_b [BETA] Two.",
    ]


def test_a_counter_without_total(registry: CollectorRegistry) -> None:
    """It keeps its name and its type; a gauge keeps its own."""
    Families(registry).counter("kubelet_evictions", "Pods.", "eviction_signal")("memory.available").inc()
    Gauge("kubelet_evictions_like", "Not this.", registry=registry)
    found = lines(registry)
    assert "# TYPE kubelet_evictions counter" in found
    assert 'kubelet_evictions{eviction_signal="memory.available"} 1.0' in found
    assert "# TYPE kubelet_evictions_like gauge" in found


def test_a_new_one_has_to_be_named(registry: CollectorRegistry) -> None:
    """Else it would be a gauge for its readers."""
    with pytest.raises(AssertionError):
        Families(registry).counter("kubelet_more", "More.")


def test_whole_bounds_have_no_decimal_point(registry: CollectorRegistry) -> None:
    """A query by `le="1"` finds nothing in `le="1.0"`."""
    Families(registry).histogram("kubelet_c_seconds", "Seconds.", buckets=(0.5, 1, 2.5, 10)).observe(3)
    bounds = [one.partition('le="')[2].partition('"')[0] for one in lines(registry) if "_bucket" in one]
    assert bounds == ["0.5", "1", "2.5", "10", "+Inf"]
