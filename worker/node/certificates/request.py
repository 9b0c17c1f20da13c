"""Requests a certificate from the API server and waits until it is approved and issued.

Used by `bootstrap` and `renewal`. Approval may take minutes (a person or a controller approves serving certificates), so the
object is watched rather than polled.
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
"""Time limit for approval and issue (client-go certificateWaitTimeout)."""

_log: Final = structlog.get_logger(__name__)


class NotIssued(Exception):
    """The request was denied, failed or was deleted; the message says which one and what to do."""


async def certificate_for(api: ApiServer, wanted: DesiredCertificate, key: bytes) -> bytes:
    """Request a certificate and return it as PEM; raises NotIssued (also on timeout), ApiAway, ApiRefused."""
    try:
        async with asyncio.timeout(WAIT.total_seconds()):
            return await _issued(api, wanted, key)
    except TimeoutError as error:
        raise NotIssued(f"no decision within {WAIT}") from error


async def _issued(api: ApiServer, wanted: DesiredCertificate, key: bytes) -> bytes:
    asked = await api.create(CERTIFICATE_SIGNING_REQUESTS.path(), request_for(wanted, key))
    name = asked["metadata"]["name"]
    _log.info(f"certificate requested; to approve it: kubectl certificate approve {name}", signer=wanted.signer)
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
    raise NotIssued(f"the CertificateSigningRequest {name} is no longer watched")


def issued_by(request: dict[str, Any]) -> bytes:
    """Return a request's certificate, or b"" while it is pending; raises NotIssued if it was denied or failed."""
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
