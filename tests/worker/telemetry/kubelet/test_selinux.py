"""Are labels of volumes counted in the kubelet's families?"""

from prometheus_client import CollectorRegistry

from activities.volumes.plugin.selinux import LabelFinding
from worker.telemetry.kubelet.families import rendered
from worker.telemetry.kubelet.selinux import FAMILIES, LabelCounts


def test_every_finding_has_a_family() -> None:
    """As an error and as a warning, but what is admitted."""
    every = {(one.value, failed) for one in LabelFinding for failed in (True, False)}
    assert FAMILIES.keys() == every - {(LabelFinding.ADMITTED.value, True)}


def test_what_is_shown() -> None:
    """Nothing at first, as on a machine without SELinux; then each family with its labels."""
    registry = CollectorRegistry()
    counts = LabelCounts(registry)
    assert rendered(registry) == b""
    for finding, failed in FAMILIES:
        for _ in range(2):
            counts.labelled(finding, "kubernetes.io/csi/d", "RWX", failed)
    shown = [one for one in rendered(registry).decode().splitlines() if not one.startswith("#")]
    both = '{access_mode="RWX",volume_plugin="kubernetes.io/csi/d"} 2.0'
    assert sorted(shown) == [
        'volume_manager_selinux_container_errors_total{access_mode="RWX"} 2.0',
        'volume_manager_selinux_container_warnings_total{access_mode="RWX"} 2.0',
        'volume_manager_selinux_pod_context_mismatch_errors_total{access_mode="RWX"} 2.0',
        'volume_manager_selinux_pod_context_mismatch_warnings_total{access_mode="RWX"} 2.0',
        f"volume_manager_selinux_volume_context_mismatch_errors_total{both}",
        f"volume_manager_selinux_volume_context_mismatch_warnings_total{both}",
        f"volume_manager_selinux_volumes_admitted_total{both}",
    ]
