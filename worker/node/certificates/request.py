"""A certificate asked of the API server: the request posted, its approval and issue awaited.

Used by `bootstrap` and `renewal`. Whoever approves may take minutes (a serving certificate is approved by a person or a
controller of the operator's), so the object is watched and not asked for again and again.
"""

import asyncio
import base64
from datetime import timedelta
from typing import Any, Final

import structlog

from activities.clients.api_server.api_server import ApiServer
from activities.clients.api_server.reflector import Listed, Reflector
from activities.clients.api_server.resources import CERTIFICATE_SIGNING_REQUESTS
from worker.node.certificates.signing import DesiredCertificate, request_for

WAIT: Final = timedelta(minutes=15)
"""For approval and issue (client-go certificateWaitTimeout)."""

_log: Final = structlog.get_logger(__name__)


class NotIssued(Exception):
    """A request that was denied, failed, or is gone; the message says which and what now."""


async def certificate_for(api: ApiServer, wanted: DesiredCertificate, key: bytes) -> bytes:
    """Ask for a certificate and give it as PEM; raises NotIssued, also when nobody decides in time, ApiAway, ApiRefused."""
    try:
        async with asyncio.timeout(WAIT.total_seconds()):
            return await _issued(api, wanted, key)
    except TimeoutError as error:
        raise NotIssued(f"nobody has decided within {WAIT}") from error


async def _issued(api: ApiServer, wanted: DesiredCertificate, key: bytes) -> bytes:
    asked = await api.create(CERTIFICATE_SIGNING_REQUESTS.path(), request_for(wanted, key))
    name = asked["metadata"]["name"]
    _log.info(
        f"a certificate is asked for; `kubectl certificate approve {name}` if nobody else does", signer=wanted.signer
    )
    reflector = Reflector(
        api, CERTIFICATE_SIGNING_REQUESTS.path(), what=f"request {name}", field_selector=f"metadata.name={name}"
    )
    async for change in reflector.changes():
        found = change.items if isinstance(change, Listed) else (change.object,)
        if not found or (not isinstance(change, Listed) and change.type == "DELETED"):
            raise NotIssued(f"the CertificateSigningRequest {name} was removed before a certificate was issued")
        if issued := issued_by(found[0]):
            _log.info("a certificate was issued", csr=name, signer=wanted.signer)
            return issued
    raise NotIssued(f"the CertificateSigningRequest {name} is not followed any more")


def issued_by(request: dict[str, Any]) -> bytes:
    """Give the certificate of a request, empty while nobody has decided; raises NotIssued when it was denied or failed."""
    name, status = request["metadata"]["name"], request.get("status") or {}
    approved = False
    for condition in status.get("conditions") or ():
        match condition.get("type"):
            case "Denied" | "Failed" as verdict:
                why = condition.get("message") or condition.get("reason") or "no reason given"
                raise NotIssued(f"the CertificateSigningRequest {name} was {verdict.lower()}: {why}")
            case "Approved":
                approved = True
    return base64.b64decode(status.get("certificate") or "") if approved else b""
