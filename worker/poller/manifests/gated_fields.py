"""Fields of a pod that need a feature gate.

An API server would drop such a field, a kubelet ignores it; here a pod that uses it is refused, so that no pod runs
without part of its spec.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from worker.settings.kubelet.feature_gates import (
    ENV_FILES_GATE,
    HOSTNAME_OVERRIDE_GATE,
    STOP_SIGNALS_GATE,
    FeatureGates,
)
from workflows.decide.manifest.validation.containers.environment import file_key_refs
from workflows.decide.manifest.validation.containers.lifecycle import stop_signals
from workflows.decide.manifest.validation.hosts import hostname_overrides

_GATED: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]]] = {
    STOP_SIGNALS_GATE: stop_signals,
    HOSTNAME_OVERRIDE_GATE: hostname_overrides,
    ENV_FILES_GATE: file_key_refs,
}


def fields_of_gates_off(spec: Mapping[str, Any], gates: FeatureGates) -> Iterator[str]:
    """List each field that needs a disabled gate, with the gate."""
    for gate, find in _GATED.items():
        if not gates.enabled(gate):
            yield from (f"{path}: needs the feature gate {gate}, which is off" for path in find(spec))
