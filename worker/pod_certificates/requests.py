"""PodCertificateRequests: what the node asks for, and what the answer says. Pure."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from activities.clients.api_server.resources import Resource
from activities.objects.pod_certificates import WantedCertificate

REQUESTS: Final = Resource("podcertificaterequests", "certificates.k8s.io", "v1beta1")
DENIED: Final = "Denied"
LONGEST_CHAIN: Final = 256 * 1024
"""Bytes: a chain has some certificates of a few KiB, and fills the memory of pod and node."""
_LONGEST_WORDS: Final = 1024
_BEGIN: Final = "-----BEGIN "
_HEADERS: Final = re.compile(r"\A(?:[^\n:]+: [^\n]*\n)+\n?")
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Issued:
    """A signer has issued a certificate."""

    chain: bytes
    begin_refresh_at: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """A signer has refused for good."""

    kind: str
    """The type of the condition: Denied or Failed."""
    reason: str
    message: str


def new_request(
    wanted: WantedCertificate, *, service_account_uid: str, node: tuple[str, str], proof: bytes
) -> dict[str, Any]:
    """Return the object to create; `node` is its name and uid."""
    pod, source = wanted.pod, wanted.source
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    spec = {
        "signerName": source.get("signerName") or "",
        "podName": pod.name,
        "podUID": pod.uid,
        "serviceAccountName": wanted.service_account,
        "serviceAccountUID": service_account_uid,
        "nodeName": node[0],
        "nodeUID": node[1],
        "stubPKCS10Request": base64.b64encode(proof).decode(),
    }
    if (seconds := source.get("maxExpirationSeconds")) is not None:
        spec["maxExpirationSeconds"] = seconds
    if annotations := source.get("userAnnotations"):
        spec["unverifiedUserAnnotations"] = dict(annotations)
    return {
        "apiVersion": f"{REQUESTS.group}/{REQUESTS.version}",
        "kind": "PodCertificateRequest",
        "metadata": {"namespace": pod.namespace, "generateName": "req-", "ownerReferences": [owner]},
        "spec": spec,
    }


def answer(request: Mapping[str, Any]) -> Issued | Refused | None:
    """Read what a signer has answered; None: nothing yet. Raises ValueError and KeyError for an answer that is none."""
    status = request.get("status") or {}
    for condition in status.get("conditions") or ():
        reason, message = (str(condition.get(one) or "")[:_LONGEST_WORDS] for one in ("reason", "message"))
        match condition.get("type"):
            case "Denied" | "Failed" as kind:
                return Refused(kind, reason, message)
            case "Issued":
                chain = str(status.get("certificateChain") or "")
                if len(chain) > LONGEST_CHAIN:
                    raise ValueError(f"the certificate chain has more than {LONGEST_CHAIN} bytes")
                refresh, ends = (datetime.fromisoformat(status[one]) for one in ("beginRefreshAt", "notAfter"))
                return Issued(clean_chain(chain), refresh, ends)
    return None


def clean_chain(text: str) -> bytes:
    """Drop headers and what is between the blocks, and call each a CERTIFICATE (cleanCertificateChain)."""
    found = map(_body, text.replace("\r\n", "\n").split(_BEGIN)[1:])
    return b"".join(_pem(one) for one in found if one)


def _body(block: str) -> bytes:
    """Return the content of a block, from behind its BEGIN; empty if it is none."""
    kind, _, rest = block.partition("-----")
    text, end, _ = rest.partition(f"\n-----END {kind}-----")
    try:
        return base64.b64decode("".join(_HEADERS.sub("", text.lstrip("\n")).split()), validate=True) if end else b""
    except binascii.Error:
        return b""


def _pem(der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])
