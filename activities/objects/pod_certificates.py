"""Certificates of pods, read through one protocol: a signer of the cluster issues them; a standalone node has none.

Used by projected volumes. The private key is made on this node, and stays in this process and in the volume; Temporal and logs
get only the version of the certificate.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from activities.objects.tokens import BoundPod


@dataclass(frozen=True, slots=True)
class WantedCertificate:
    """A podCertificate projection of a pod."""

    pod: BoundPod
    service_account: str
    volume: str
    index: int
    """Its place among the sources of the volume."""
    source: Mapping[str, Any] = field(hash=False)

    @property
    def place(self) -> tuple[str, str, int]:
        """Identifies it: the pod's uid, the volume and the index."""
        return self.pod.uid, self.volume, self.index


@dataclass(frozen=True, slots=True)
class PodCertificate:
    """A private key and the certificates for it, in PEM."""

    key: bytes = field(repr=False)
    chain: bytes

    @property
    def version(self) -> str:
        """Identifies the certificate; may be written to history."""
        return hashlib.sha256(self.chain).hexdigest()[:16]


class PodCertificateRefused(Exception):
    """There is no certificate, or not yet; the message is the kubelet's."""


class PodCertificateSource(Protocol):
    """A source of certificates."""

    async def certificate(self, wanted: WantedCertificate) -> PodCertificate:
        """Return the newest one, and ask for one if there is none; raises PodCertificateRefused."""
        ...


class NoPodCertificates:
    """A node without an API server, or with the feature gate PodCertificateRequest off (the default)."""

    async def certificate(self, wanted: WantedCertificate) -> PodCertificate:  # noqa: ARG002 - there are none of any
        """Refuse, in the kubelet's word (pkg/kubelet/podcertificate NoOpManager) and with what it lacks."""
        raise PodCertificateRefused(
            "unimplemented: a podCertificate needs the feature gate PodCertificateRequest, which is off on this node"
        )
