"""What the node knows about the certificate of one projection, and what comes next. Pure.

The states are the kubelet's (pkg/kubelet/podcertificate credState): without a request, waiting, fresh, waiting for a newer one,
denied, failed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from activities.objects.pod_certificates import PodCertificate, PodCertificateRefused
from proto.kubernetes.go_quote import go_quoted
from worker.pod_certificates.requests import DENIED, Issued, Refused, answer

DELETED_AFTER: Final = timedelta(minutes=10)
"""A request that is not seen so long after it was made, and the jitter, must have been deleted."""
OVERDUE_AFTER: Final = timedelta(minutes=10)
NOT_YET: Final = "credential bundle is not issued yet"
OVERDUE: Final = ("CertificateOverdueForRefresh", "PodCertificate refresh overdue")
EXPIRED: Final = ("CertificateExpired", "PodCertificate expired")
"""Events: reason and message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a signer has not answered yet."""

    name: str
    key: bytes = field(repr=False)
    abandon_at: datetime


@dataclass(frozen=True, slots=True)
class Fresh:
    """The newest certificate."""

    certificate: PodCertificate
    begin_refresh_at: datetime
    """With jitter."""
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Record:
    """The certificate of one projection."""

    asked: Asked | None = None
    fresh: Fresh | None = None
    refused: Refused | None = None

    @property
    def refusal(self) -> str:
        """Why there will be none, in the kubelet's words; empty if there may be one."""
        if self.refused is None:
            return ""
        words = f"reason={go_quoted(self.refused.reason)} message={go_quoted(self.refused.message)}"
        return f"PodCertificateRequest was permanently {_verb(self.refused.kind)}: {words}"

    def certificate(self) -> PodCertificate:
        """Return it; raises PodCertificateRefused in the kubelet's words."""
        if refusal := self.refusal:
            raise PodCertificateRefused(refusal)
        if self.fresh is None:
            raise PodCertificateRefused(NOT_YET)
        return self.fresh.certificate

    def needs_request(self, now: datetime) -> bool:
        """Report whether a certificate is to be asked for now."""
        if self.asked or self.refused:
            return False
        return self.fresh is None or now >= self.fresh.begin_refresh_at

    def read(self, request: Mapping[str, Any] | None, now: datetime, jitter: timedelta) -> "Record":
        """Take the newest state of its request; None: it is not there. Raises ValueError and KeyError for one that is malformed."""
        if self.asked is None:
            return self
        if request is None:
            return replace(self, asked=None) if now > self.asked.abandon_at else self
        match answer(request):
            case Refused() as refused:
                return Record(refused=refused)
            case Issued() as issued:
                certificate = PodCertificate(self.asked.key, issued.chain)
                return Record(fresh=Fresh(certificate, issued.begin_refresh_at + jitter, issued.not_after))
            case None:
                return self

    def events(self, now: datetime) -> tuple[tuple[str, str], ...]:
        """Return what is wrong with its age: reasons and messages of events."""
        if self.fresh is None:
            return ()
        late = [OVERDUE] if now > self.fresh.begin_refresh_at + OVERDUE_AFTER else []
        return tuple(late + ([EXPIRED] if now > self.fresh.not_after else []))

    def state(self, now: datetime) -> str:
        """Return the state that metrics show."""
        if self.refused is not None:
            return _verb(self.refused.kind)
        if self.fresh is None:
            return "not_yet_issued"
        if now > self.fresh.not_after:
            return "expired"
        return "overdue_for_refresh" if now > self.fresh.begin_refresh_at + OVERDUE_AFTER else "fresh"


def refusal_event(namespace: str, request: str, refused: Refused) -> str:
    """Return the message of the event that tells of a refusal."""
    verb = "was denied" if refused.kind == DENIED else "failed"
    words = f"reason={go_quoted(refused.reason)}, message={go_quoted(refused.message)}"
    return f"PodCertificateRequest {namespace}/{request} {verb}, {words}"


def _verb(kind: str) -> str:
    return "denied" if kind == DENIED else "failed"
