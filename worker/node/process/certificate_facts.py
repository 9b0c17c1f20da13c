"""Facts about the node's certificates for its metrics."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(slots=True)
class CertificateFacts:
    """Facts about one certificate for the metrics."""

    not_after: datetime | None = None
    """None: there is no certificate."""
    renew_errors: int = 0
    lived: timedelta | None = None
    """Age of the previous certificate when it was replaced."""
