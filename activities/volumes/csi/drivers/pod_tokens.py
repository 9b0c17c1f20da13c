"""Service account tokens for a driver (CSIDriver spec.tokenRequests).

Requested whenever a volume is published. A token is passed to the driver and never written to disk (csi_mounter.go
podServiceAccountTokenAttrs).
"""

import json
from collections.abc import Mapping
from typing import Any

from activities.clients.secret_redaction import TOKENS
from activities.objects.tokens import BoundPod, TokenRefused, TokenSource, pod_token_spec
from activities.volumes.csi.drivers.driver_object import DriverRules
from activities.volumes.plugin.volume_type import VolumeFailed


async def pod_tokens(tokens: TokenSource, rules: DriverRules, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens as the driver expects them, under one key; nothing if it requests none. Raises VolumeFailed."""
    if not rules.token_requests:
        return {}
    metadata, account = pod["metadata"], str(pod["spec"].get("serviceAccountName") or "")
    bound = BoundPod(metadata["namespace"], metadata["name"], metadata["uid"])
    found = {}
    for asked in rules.token_requests:
        try:
            token = await tokens.token(pod_token_spec(bound, account, asked.audience, asked.expiration_seconds))
        except TokenRefused as refused:
            doing = "mounter.SetUpAt failed to get service account token attributes"
            raise VolumeFailed(f"kubernetes.io/csi: {doing}: {refused}") from refused
        found[asked.audience] = {"token": token.text, "expirationTimestamp": f"{token.expires:%Y-%m-%dT%H:%M:%SZ}"}
    return {TOKENS: json.dumps(found, separators=(",", ":"))}
