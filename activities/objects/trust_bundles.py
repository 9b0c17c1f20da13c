"""ClusterTrustBundles, read through one protocol.

Used by projected volumes. A pod selects one bundle by name, or all of a signer with some labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class TrustAnchors:
    """The certificates of one or several bundles, each once, in no particular order."""

    version: str
    pem: bytes


class TrustBundleRefused(Exception):
    """There are no trust anchors; the message is the kubelet's."""


class TrustBundleSource(Protocol):
    """A source of trust bundles."""

    async def anchors(self, source: Mapping[str, Any]) -> TrustAnchors:
        """Return what a clusterTrustBundle projection selects.

        Raises TrustBundleRefused if it is missing and not optional.
        """
        ...


class NoTrustBundles:
    """A node without an API server, or with the feature gate ClusterTrustBundleProjection off (the default)."""

    async def anchors(self, source: Mapping[str, Any]) -> TrustAnchors:  # noqa: ARG002 - there are none of any
        """Refuse, in the kubelet's words (pkg/kubelet/clustertrustbundle NoopManager)."""
        raise TrustBundleRefused("ClusterTrustBundle projection is not supported in static kubelet mode")
