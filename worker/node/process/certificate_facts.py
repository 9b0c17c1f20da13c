"""What is told of the node's certificates in its metrics."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(slots=True)
class CertificateFacts:
    """What is told of one certificate in metrics."""

    not_after: datetime | None = None
    """None: there is none."""
    renew_errors: int = 0
    lived: timedelta | None = None
    """How old the one before had become when it was replaced."""
