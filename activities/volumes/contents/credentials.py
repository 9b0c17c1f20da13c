"""Reads the service account tokens, trust bundles and certificates of a projected volume.

Read before the files are written. A string instead of a value says why there is none, so that everything that is
missing can be reported at once.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from activities.objects.pod_certificates import PodCertificate, PodCertificateRefused, WantedCertificate
from activities.objects.tokens import BoundPod, ServiceAccountToken, TokenRefused, pod_token_spec
from activities.objects.trust_bundles import TrustAnchors, TrustBundleRefused
from activities.volumes.plugin.volume_type import PodVolume
from proto.kubernetes.contents.projections import expiration_seconds, token_key, trust_bundle_key

_Source = Mapping[str, Any]


async def read_tokens(volume: PodVolume) -> dict[str, ServiceAccountToken | str]:
    """Get a token for each serviceAccountToken projection of a volume, by its key."""
    found: dict[str, ServiceAccountToken | str] = {}
    account = str(volume.pod_spec["spec"].get("serviceAccountName") or "")
    pod = BoundPod(volume.pod.namespace, volume.pod.name, volume.pod.uid)
    for source in _projections(volume.source, "serviceAccountToken"):
        spec = pod_token_spec(pod, account, source.get("audience") or "", expiration_seconds(source))
        try:
            found[token_key(source)] = await volume.services.tokens.token(spec)
        except TokenRefused as refused:
            found[token_key(source)] = str(refused)
    return found


async def read_trust_bundles(volume: PodVolume) -> dict[str, TrustAnchors | str]:
    """Get the trust anchors for each clusterTrustBundle projection of a volume, by its key."""
    found: dict[str, TrustAnchors | str] = {}
    for source in _projections(volume.source, "clusterTrustBundle"):
        try:
            found[trust_bundle_key(source)] = await volume.services.trust_bundles.anchors(source)
        except TrustBundleRefused as refused:
            found[trust_bundle_key(source)] = str(refused)
    return found


async def read_certificates(volume: PodVolume) -> dict[int, PodCertificate | str]:
    """Get the certificate for each podCertificate projection of a volume, by its place among the sources."""
    found: dict[int, PodCertificate | str] = {}
    account = str(volume.pod_spec["spec"].get("serviceAccountName") or "")
    pod = BoundPod(volume.pod.namespace, volume.pod.name, volume.pod.uid)
    for index, projection in enumerate(volume.source.get("sources") or ()):
        if source := projection.get("podCertificate"):
            wanted = WantedCertificate(pod, account, volume.name, index, source)
            try:
                found[index] = await volume.services.pod_certificates.certificate(wanted)
            except PodCertificateRefused as refused:
                found[index] = str(refused)
    return found


def _projections(source: _Source, kind: str) -> Iterator[_Source]:
    for projection in source.get("sources") or ():
        if chosen := projection.get(kind):
            yield chosen
