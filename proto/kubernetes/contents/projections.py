"""How the sources of a projected volume that are no objects of the pod's namespace are called among the versions it shows.

Pure; `workflows.decide.contents` names by these keys what a pod is to be told of, the activities what they have written. None of
them holds more than the pod's spec says in clear: a token's key is whose it is to be and for how long, never the token.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

TOKENS: Final = "serviceaccounttokens"
TRUST_BUNDLES: Final = "clustertrustbundles"
DEFAULT_EXPIRATION: Final = 3600
"""Seconds: the API's default (pkg/apis/core/v1/defaults.go SetDefaults_ServiceAccountTokenProjection)."""


def token_key(source: Mapping[str, Any]) -> str:
    """Name the token of a serviceAccountToken projection."""
    return f"{TOKENS}/{expiration_seconds(source)}/{source.get('audience') or ''}"


def expiration_seconds(source: Mapping[str, Any]) -> int:
    """Say how long a token is to live."""
    return int(source.get("expirationSeconds") or DEFAULT_EXPIRATION)


def audience_of(key: str) -> tuple[str, int]:
    """Read a token's audience (empty: the API server's own) and life in seconds back from its key."""
    _, seconds, audience = key.split("/", 2)
    return audience, int(seconds)


def trust_bundle_key(source: Mapping[str, Any]) -> str:
    """Name what a clusterTrustBundle projection chooses: one bundle, or those of a signer that carry some labels."""
    if name := source.get("name"):
        return f"{TRUST_BUNDLES}/{name}"
    selector = json.dumps(source.get("labelSelector"), sort_keys=True, separators=(",", ":"))
    return f"{TRUST_BUNDLES}?{source.get('signerName') or ''} {selector}"
