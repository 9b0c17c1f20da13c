"""The claims of a pod's volumes: those that it names, and those that a controller creates for it.

See component-helpers storage/ephemeral.
"""

from collections.abc import Mapping
from typing import Any


def ephemeral_claim(pod: str, volume: str) -> str:
    """Name the claim that is created for an ephemeral volume of a pod."""
    return f"{pod}-{volume}"


def claim_of(pod: str, volume: Mapping[str, Any]) -> str:
    """Name the claim of a volume of the pod's spec; empty if it has none."""
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        return str(claim["claimName"])
    return ephemeral_claim(pod, volume["name"]) if volume.get("ephemeral") is not None else ""
