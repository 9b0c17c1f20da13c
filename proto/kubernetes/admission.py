"""How a status says that a node does not take a pod, where more than one room knows the words."""

from typing import Final

GROUPS_POLICY_NOT_SUPPORTED: Final = "SupplementalGroupsPolicyNotSupported"
"""pkg/kubelet/lifecycle/predicate.go; only the runtime knows whether it can."""
REJECTED_PREFIX: Final = "Pod was rejected: "
"""What the message of a pod that was not taken begins with (pkg/kubelet/kubelet.go rejectPod)."""
