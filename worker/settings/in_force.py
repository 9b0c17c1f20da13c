"""The KubeletConfiguration in force: what a node that is given it again starts with.

For /configz, from which tools read a configuration, change it and write it back, as the official node tests do. Where a key
that no file has means something else here than the kubelet's default, the meaning is written; a key that a feature gate
forbids is left out. `tests/worker/settings/test_in_force.py` writes it back.
"""

from copy import deepcopy
from typing import Any, Final

from worker.settings.image_verification import ALLOWLIST, POLICY
from worker.settings.images import DEFAULT_PARALLEL_PULLS, PARALLEL_PULLS, SERIAL_PULLS
from worker.settings.kubelet.configuration import API_VERSION, KIND, KubeletConfiguration
from worker.settings.kubelet.feature_gates import VERIFICATION_GATE, FeatureGates
from workflows.decide.eviction.thresholds import ThresholdConfig, hard_statements

_FALSE_UNLESS_SAID: Final = ("failCgroupV1", "failSwapOn")
_BACKOFF_GATE: Final = "KubeletCrashLoopBackOffMax"
_BACKOFF: Final = "crashLoopBackOff"
_POINTERS: Final = ("tracing", "userNamespaces", _BACKOFF)
"""Objects that mean nothing if they are empty, but something to a kubelet if they are there."""


def in_force(kubelet: KubeletConfiguration, gates: FeatureGates) -> dict[str, Any]:
    """Return it whole, as JSON."""
    found: dict[str, Any] = {"kind": KIND, "apiVersion": API_VERSION, **deepcopy(dict(kubelet.values))}
    found |= {key: False for key in _FALSE_UNLESS_SAID if key not in kubelet.said}
    if not {SERIAL_PULLS, PARALLEL_PULLS} & kubelet.said:
        found |= {SERIAL_PULLS: False, PARALLEL_PULLS: DEFAULT_PARALLEL_PULLS}
    hard = ThresholdConfig(kubelet["evictionHard"], merge_defaults=bool(kubelet["mergeDefaultEvictionSettings"]))
    found["evictionHard"] = dict(hard_statements(hard))
    if not gates.enabled(_BACKOFF_GATE):
        found.pop(_BACKOFF, None)
    if not gates.enabled(VERIFICATION_GATE):
        found = {key: value for key, value in found.items() if key not in (POLICY, ALLOWLIST)}
    return {key: value for key, value in found.items() if value or key not in _POINTERS}
