"""Keys for the sources of a projected volume that are not objects of the pod's namespace.

Pure. `workflows.decide.contents` and the activities use them for the versions that a volume shows. A key contains only
what the pod's spec says: for a token its audience and lifetime, never the token.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

TOKENS: Final = "serviceaccounttokens"
TRUST_BUNDLES: Final = "clustertrustbundles"
POD_CERTIFICATES: Final = "podcertificates"
DEFAULT_EXPIRATION: Final = 3600
"""Seconds: the API's default (pkg/apis/core/v1/defaults.go SetDefaults_ServiceAccountTokenProjection)."""


def token_key(source: Mapping[str, Any]) -> str:
    """Return the key of a serviceAccountToken projection."""
    return f"{TOKENS}/{expiration_seconds(source)}/{source.get('audience') or ''}"


def expiration_seconds(source: Mapping[str, Any]) -> int:
    """Return a token's lifetime."""
    return int(source.get("expirationSeconds") or DEFAULT_EXPIRATION)


def audience_of(key: str) -> tuple[str, int]:
    """Read a token's audience (empty for the API server's own) and lifetime in seconds from its key."""
    _, seconds, audience = key.split("/", 2)
    return audience, int(seconds)


def trust_bundle_key(source: Mapping[str, Any]) -> str:
    """Return the key of a clusterTrustBundle projection: one bundle, or those of a signer with some labels."""
    if name := source.get("name"):
        return f"{TRUST_BUNDLES}/{name}"
    selector = json.dumps(source.get("labelSelector"), sort_keys=True, separators=(",", ":"))
    return f"{TRUST_BUNDLES}?{source.get('signerName') or ''} {selector}"


def pod_certificate_key(volume: str, index: int) -> str:
    """Return the key of a podCertificate projection, by its place in the pod."""
    return f"{POD_CERTIFICATES}/{volume}/{index}"
