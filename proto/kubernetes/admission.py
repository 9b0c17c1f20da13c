"""Reasons with which a node does not take a pod, where more than one room knows them."""

from typing import Final

GROUPS_POLICY_NOT_SUPPORTED: Final = "SupplementalGroupsPolicyNotSupported"
"""pkg/kubelet/lifecycle/predicate.go; only the runtime knows whether it can."""
