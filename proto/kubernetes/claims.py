"""Which claims bring a pod's volumes: those that it names, and those that a controller makes for it alone.

Asked where a volume is mounted, where its claim is watched and where its use is counted (component-helpers storage/ephemeral).
"""

from collections.abc import Mapping
from typing import Any


def ephemeral_claim(pod: str, volume: str) -> str:
    """Name the claim that is made for an ephemeral volume of a pod."""
    return f"{pod}-{volume}"


def claim_of(pod: str, volume: Mapping[str, Any]) -> str:
    """Name the claim of a volume of the pod's spec; empty: it has none."""
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        return str(claim["claimName"])
    return ephemeral_claim(pod, volume["name"]) if volume.get("ephemeral") is not None else ""
