"""What a Node says that it can do: its runtime's handlers and features, and the features of Kubernetes that it declares.

Asked by `status`. The scheduler and the API server believe it (k8s.io/component-helpers nodedeclaredfeatures), so only what
tempolet does stands here. Never ExtendWebSocketsToKubelet: the API server would then speak WebSocket to a node whose streams
are bytes handed through.
"""

from collections.abc import Mapping
from typing import Any, Final

from worker.node.runtime.state import RuntimeState
from worker.settings.kubelet.feature_gates import FeatureGates

DECLARED: Final = ("InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits")
"""Gates whose behaviour the pods' workflows have; in the order of the alphabet, as the API wants them. Not among them is
InPlacePodLevelResourcesVerticalScaling: a pod whose own resources are edited is replaced here."""


def declared_features(gates: FeatureGates) -> tuple[str, ...]:
    """Name the features that this node declares."""
    if not gates.enabled("NodeDeclaredFeatures"):
        return ()
    return tuple(name for name in DECLARED if gates.enabled(name))


def runtime_handlers(runtime: RuntimeState) -> list[dict[str, Any]]:
    """List the runtime's handlers, the default one (without a name) first."""
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
    """Say what the runtime can do altogether; None when it does not say."""
    return None if runtime.supplemental_groups is None else {"supplementalGroupsPolicy": runtime.supplemental_groups}
