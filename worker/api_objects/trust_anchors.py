"""The certificates that a clusterTrustBundle projection selects, as one PEM file.

Pure; used by `trust_bundles` (pkg/kubelet/clustertrustbundle). The kubelet shuffles the certificates at each start. Here they
are ordered by their digest, which is as arbitrary, and leaves a volume unchanged when a worker starts.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from activities.objects.objects import StoredObject
from activities.objects.trust_bundles import TrustAnchors, TrustBundleRefused

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_LINE: Final = 64
_Labels = Mapping[str, str]

_OPERATORS: Final[Mapping[str, Callable[[_Labels, str, list[str]], bool]]] = {
    "In": lambda labels, key, values: labels.get(key) in values,
    "NotIn": lambda labels, key, values: labels.get(key) not in values,
    "Exists": lambda labels, key, _: key in labels,
    "DoesNotExist": lambda labels, key, _: key not in labels,
}


def anchors(source: Mapping[str, Any], bundles: Mapping[str, StoredObject]) -> TrustAnchors:
    """Return the selected certificates; empty for an optional source that selects none. Raises TrustBundleRefused."""
    chosen = _chosen(source, bundles)
    if not chosen:
        if source.get("optional"):
            return TrustAnchors("", b"")
        if name := source.get("name"):
            raise TrustBundleRefused(
                f'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "{name}" not found'
            )
        raise TrustBundleRefused("combination of signerName and labelSelector matched zero ClusterTrustBundles")
    versions = sorted(f"{name}={one.version}" for name, one in chosen.items())
    version = hashlib.sha256(" ".join(versions).encode()).hexdigest()[:16]
    return TrustAnchors(version, merge_bundles(one.json["spec"].get("trustBundle") or "" for one in chosen.values()))


def merge_bundles(bundles: Iterable[str]) -> bytes:
    """Merge the certificates of bundles, each once."""
    found = {base64.b64decode(body) for text in bundles for body in _CERTIFICATE.findall(text)}
    return b"".join(map(_pem, sorted(found, key=lambda one: hashlib.sha256(one).digest())))


def matches(selector: Mapping[str, Any] | None, labels: _Labels) -> bool:
    """Report whether labels match: no selector matches nothing, an empty one everything (LabelSelectorAsSelector)."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    asked = selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _OPERATORS[one["operator"]](labels, one["key"], one.get("values") or []) for one in asked
    )


def _chosen(source: Mapping[str, Any], bundles: Mapping[str, StoredObject]) -> dict[str, StoredObject]:
    if name := source.get("name"):
        return {name: bundles[name]} if name in bundles else {}
    signer, selector = source.get("signerName") or "", source.get("labelSelector")
    return {
        name: one
        for name, one in bundles.items()
        if (one.json["spec"].get("signerName") or "") == signer
        and matches(selector, one.json["metadata"].get("labels") or {})
    }


def _pem(certificate: bytes) -> bytes:
    text = base64.b64encode(certificate)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join([b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""])
