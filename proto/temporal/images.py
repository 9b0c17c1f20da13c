"""Who may pull a pod's images: names of secrets only, never their content."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PullSecrets:
    """Whose credentials pull a pod's images."""

    names: tuple[str, ...] = ()
    """Secrets in the pod's namespace, in the pod's order."""
    service_account: str = ""
    """Its secrets are used if the pod itself names none."""


NO_SECRETS: Final = PullSecrets()
