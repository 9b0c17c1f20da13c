"""Words of a status that rejects a pod, where more than one layer needs them."""

from typing import Final

GROUPS_POLICY_NOT_SUPPORTED: Final = "SupplementalGroupsPolicyNotSupported"
"""pkg/kubelet/lifecycle/predicate.go; only the runtime knows whether it supports the policy."""
REJECTED_PREFIX: Final = "Pod was rejected: "
"""The beginning of a rejected pod's message (pkg/kubelet/kubelet.go rejectPod)."""
