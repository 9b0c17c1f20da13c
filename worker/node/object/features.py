"""The capabilities a Node declares: runtime handlers, runtime features, and Kubernetes features.

Used by `status`. The scheduler and the API server rely on them (k8s.io/component-helpers nodedeclaredfeatures), so only what
tempolet implements is listed. ExtendWebSocketsToKubelet must not be declared: the API server would then send WebSocket streams,
which are passed to the runtime unchanged.
"""

from collections.abc import Mapping
from typing import Any, Final

from worker.node.runtime.state import RuntimeState
from worker.settings.kubelet.feature_gates import FeatureGates

DECLARED: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""Feature gates that the pods' workflows implement, in alphabetical order, as the API requires."""


def declared_features(gates: FeatureGates) -> tuple[str, ...]:
    """Return the features that this node declares."""
    if not gates.enabled("NodeDeclaredFeatures"):
        return ()
    return tuple(name for name in DECLARED if gates.enabled(name))


def runtime_handlers(runtime: RuntimeState) -> list[dict[str, Any]]:
    """Return the runtime's handlers, the default one (without a name) first."""
    return [
        {
            "name": one.name,
            "features": {
                "recursiveReadOnlyMounts": one.recursive_read_only_mounts,
                "userNamespaces": one.user_namespaces,
            },
        }
        for one in runtime.handlers
    ]


def node_features(runtime: RuntimeState) -> Mapping[str, bool] | None:
    """Return the runtime's features; None if it does not report them."""
    return None if runtime.supplemental_groups is None else {"supplementalGroupsPolicy": runtime.supplemental_groups}
