"""A signer of PodCertificateRequests, as a controller of a cluster would be: it issues what a test tells it to."""

import base64
import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from proto.kubernetes.api_time import api_time
from tests.cluster.control_plane import ControlPlane

NAME: Final = "tests.example/signer"
FLAGS: Final = (
    "--feature-gates",
    "PodCertificateRequest=true",
    "--runtime-config",
    "certificates.k8s.io/v1beta1/podcertificaterequests=true",
)
"""Of an API server that has such requests."""


def projection(key_type: str = "ECDSAP256", **paths: str) -> dict[str, Any]:
    """Build a source of a projected volume."""
    return {"podCertificate": {"signerName": NAME, "keyType": key_type, "maxExpirationSeconds": 86400, **paths}}


@dataclass
class PodSigner:
    """The signer of one namespace."""

    plane: ControlPlane
    namespace: str
    _key: Any = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def requests(self, pod: str) -> list[Any]:
        """List the requests for a pod that have no answer yet."""
        found = self.plane.api.get(self._path())["items"]
        mine = [one for one in found if one["spec"]["podName"] == pod]
        return [one for one in mine if not (one.get("status") or {}).get("conditions")]

    def issue(self, request: Any) -> bytes:
        """Issue a certificate; returns it. It is to be renewed in an hour."""
        csr = x509.load_der_x509_csr(base64.b64decode(request["spec"]["stubPKCS10Request"]))
        assert csr.is_signature_valid
        begin = dt.datetime.now(dt.UTC).replace(microsecond=0)
        end = begin + dt.timedelta(hours=2)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
        builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(issuer).public_key(csr.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
        pem = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        times = {"notBefore": begin, "beginRefreshAt": begin + dt.timedelta(hours=1), "notAfter": end}
        self._answer(request, "Issued", certificateChain=pem.decode(), **{k: api_time(v) for k, v in times.items()})
        return pem

    def refuse(self, request: Any, kind: str = "Denied") -> None:
        """Deny a request, or let it fail."""
        self._answer(request, kind)

    def _answer(self, request: Any, kind: str, **more: Any) -> None:
        now = api_time(dt.datetime.now(dt.UTC))
        condition = {
            "type": kind,
            "status": "True",
            "reason": "Asked",
            "message": "by a test",
            "lastTransitionTime": now,
        }
        self.plane.api.patch(
            f"{self._path()}/{request['metadata']['name']}/status", {"status": {"conditions": [condition], **more}}
        )

    def _path(self) -> str:
        return f"/apis/certificates.k8s.io/v1beta1/namespaces/{self.namespace}/podcertificaterequests"
