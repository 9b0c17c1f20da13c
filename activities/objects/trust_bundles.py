"""ClusterTrustBundles, read through one protocol: what a cluster lets its pods trust.

Asked by projected volumes. Each source is given as a pod names it: one bundle, or all of a signer that carry some labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TrustAnchors:
    """The certificates of one or several bundles, each once, in an order that says nothing."""

    version: str
    pem: bytes


class TrustBundleRefused(Exception):
    """There are no trust anchors; the words are the kubelet's."""


class TrustBundleSource(Protocol):
    """Where bundles are."""

    async def anchors(self, source: Mapping[str, Any]) -> TrustAnchors:
        """Give what a clusterTrustBundle projection chooses; raises TrustBundleRefused where it is not optional."""
        ...


class NoTrustBundles:
    """A node without an API server, or with the feature gate ClusterTrustBundleProjection off, as it is by itself."""

    async def anchors(self, source: Mapping[str, Any]) -> TrustAnchors:  # noqa: ARG002 - there are none of any
        """Refuse them, in the words that the kubelet has for both (pkg/kubelet/clustertrustbundle NoopManager)."""
        raise TrustBundleRefused("ClusterTrustBundle projection is not supported in static kubelet mode")
