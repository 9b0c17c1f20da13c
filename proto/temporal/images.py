"""What a pod says about who may pull its images: names only, never what they stand for."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """Whose logins a pod's images are pulled with."""

    names: tuple[str, ...] = ()
    """Of Secrets in the pod's namespace, in the pod's order."""
    service_account: str = ""
    """Of which secrets are taken, where the pod itself names none."""


NO_SECRETS: Final = PullSecrets()
