"""A pod's images: who may pull them (names of secrets only, never their content), and what is known of each."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """Whose credentials pull a pod's images."""

    names: tuple[str, ...] = ()
    """Secrets in the pod's namespace, in the pod's order."""
    service_account: str = ""
    """Its secrets are used if the pod itself names none."""


NO_SECRETS: Final = PullSecrets()


@dataclass(slots=True)
class ImageFacts:
    """What is known of one image that the pod names."""

    image_ref: str = ""
    pulled: bool = False
    reason: str = ""
    """ErrImagePull, ImageInspectError, InvalidImageName, ErrImageNeverPull; empty if the last try succeeded."""
    message: str = ""
    backoff: timedelta | None = None
    failed_at: datetime | None = None
    skipped_at: datetime | None = None
    """When an operator ended the back-off of this failure."""
