"""The eviction thresholds of a KubeletConfiguration: evictionHard, evictionSoft and the keys that belong to them.

`workflows/decide/eviction/thresholds.py` parses and checks them; here their keys are read. Hard ones are reserved from pods,
too (`reserved.py`).
"""

from collections.abc import Iterator

from proto.temporal.eviction.thresholds import EvictionPolicy
from worker.settings.kubelet.configuration import KubeletConfiguration
from workflows.decide.eviction.thresholds import ThresholdConfig, parse_thresholds, threshold_faults


def eviction_policy(kubelet: KubeletConfiguration) -> EvictionPolicy:
    """Return the policy of a configuration that `eviction_breaches` has no objection to."""
    return EvictionPolicy(
        parse_thresholds(_stated(kubelet)),
        transition=kubelet["evictionPressureTransitionPeriod"],
        longest_grace_seconds=kubelet["evictionMaxPodGracePeriod"] or 0,
        local_storage=False,  # decided in each pod's workflow
        kernel_notifies=bool(kubelet["kernelMemcgNotification"]),
    )


def eviction_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List the invalid thresholds by their key, in the kubelet's words."""
    for fault in threshold_faults(_stated(kubelet)):
        yield f"{fault.key}: {fault.why}"


def _stated(kubelet: KubeletConfiguration) -> ThresholdConfig:
    return ThresholdConfig(
        hard=kubelet["evictionHard"],
        soft=kubelet["evictionSoft"] or {},
        soft_grace=kubelet["evictionSoftGracePeriod"] or {},
        minimum_reclaim=kubelet["evictionMinimumReclaim"] or {},
        merge_defaults=bool(kubelet["mergeDefaultEvictionSettings"]),
        enforced=tuple(kubelet["enforceNodeAllocatable"] or ()),
    )
