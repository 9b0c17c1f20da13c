"""Do operations on volumes have a bounded number of series, whatever drivers pods name?"""

from prometheus_client import CollectorRegistry

from worker.telemetry.kubelet.operations import OperationTimes


def test_drivers_without_number_share_a_series() -> None:
    """Once there are many; those that have one keep it."""
    registry = CollectorRegistry()
    times = OperationTimes(registry)
    for index in [*range(200), 0]:
        times.volume(f"kubernetes.io/csi:d{index}.test", "volume_mount", 0.1, failed=True)

    def count(plugin: str) -> float | None:
        labels = {"volume_plugin": plugin, "operation_name": "volume_mount"}
        return registry.get_sample_value("storage_operation_errors_total", labels)

    assert [count(f"kubernetes.io/csi:{one}.test") for one in ("d0", "d99", "d100")] == [2, 1, None]
    assert count("kubernetes.io/csi") == 100
