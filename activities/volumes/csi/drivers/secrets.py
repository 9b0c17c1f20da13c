"""Reads the Secrets that a driver needs to stage or publish a volume."""

import base64
import binascii

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from activities.volumes.csi.records.volume import SecretReference
from activities.volumes.plugin.volume_type import VolumeFailed


async def read_secret(objects: ObjectSource, place: SecretReference | None, field: str) -> dict[str, str]:
    """Return a Secret's values as text; empty if none is named.

    Raises VolumeFailed, which names the Secret but none of its values.
    """
    if place is None:
        return {}
    doing = f"fetching {field} {place.namespace}/{place.name} failed: kubernetes.io/csi"
    try:
        stored = await objects.get(ObjectKind.SECRETS, place.namespace, place.name)
    except (ObjectMissing, ObjectRefused) as error:
        raise VolumeFailed(
            f"{doing}: failed to find the secret {place.name} in the namespace {place.namespace} with error: {error}"
        ) from error
    values = {key: _text(value) for key, value in (stored.json.get("data") or {}).items()}
    for key, value in values.items():
        if value is None:
            raise VolumeFailed(f"{doing}: its key {key} is not text, and a driver takes only text")
    return {key: value for key, value in values.items() if value is not None}


def _text(encoded: str) -> str | None:
    """Decode a value; None if it is not text. The decoders' errors contain the value, so they are dropped."""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
