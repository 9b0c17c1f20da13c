"""Decides which files a configMap, secret, downwardAPI or projected volume holds; pure.

Called by `written`, which reads the objects and writes the files. The rules and error messages are the kubelet's:
MakePayload of pkg/volume/configmap and secret, CollectData of pkg/volume/downwardapi, collectData of projected.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any, Final, TypeVar

from activities.cri_config.downward import FieldError, default_limits, find_container, metadata_value, resource_value
from activities.files.atomic_writer import ProjectedFile
from activities.objects.objects import ObjectKind, StoredObject
from activities.objects.pod_certificates import PodCertificate
from activities.objects.tokens import ServiceAccountToken
from activities.objects.trust_bundles import TrustAnchors
from activities.volumes.plugin.volume_type import VolumeFailed
from proto.kubernetes.contents.projections import token_key, trust_bundle_key
from proto.kubernetes.resources.pod_totals import ResourceList

Source = Mapping[str, Any]
Files = dict[str, ProjectedFile]
_Found = TypeVar("_Found", ServiceAccountToken, TrustAnchors, PodCertificate)

DEFAULT_MODE: Final = 0o644
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a volume refers to."""

    kind: ObjectKind
    name: str
    optional: bool = False

    @property
    def key(self) -> str:
        """The key under which its version is reported."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that a volume's files are made from."""

    objects: Mapping[str, StoredObject | str]
    """By the key of the reference; a string says why there is none."""
    pod: Source
    allocatable: ResourceList = field(default_factory=dict)
    tokens: Mapping[str, ServiceAccountToken | str] = field(default_factory=dict)
    """By `projections.token_key`; a string says why there is none."""
    trust_bundles: Mapping[str, TrustAnchors | str] = field(default_factory=dict)
    """By `projections.trust_bundle_key`; likewise."""
    certificates: Mapping[int, PodCertificate | str] = field(default_factory=dict)
    """By the place of the projection among the sources; likewise."""
    owner: int | None = None
    """The user that all containers run as, who owns the files of credentials (FsUserFrom)."""
    has_group: bool = False
    """The files belong to a group, which may read them although others may not."""


def references(kind: str, source: Source) -> Iterator[Reference]:
    """List the objects that a volume of this type refers to."""
    match kind:
        case "configMap":
            yield Reference(ObjectKind.CONFIG_MAPS, source.get("name") or "", bool(source.get("optional")))
        case "secret":
            name = source.get("secretName") or source.get("name") or ""  # of a projection it is the name
            yield Reference(ObjectKind.SECRETS, name, bool(source.get("optional")))
        case "projected":
            for projection in source.get("sources") or ():
                for one, inner in projection.items():
                    yield from references(one, inner)


def files_of(kind: str, source: Source, known: Known) -> Files:
    """Build the files of a volume of this type; raises VolumeFailed, which lists everything that is missing."""
    return _files(kind, source, known, source.get("defaultMode", DEFAULT_MODE))


def _files(kind: str, source: Source, known: Known, mode: int) -> Files:
    match kind:
        case "configMap" | "secret":
            (reference,) = references(kind, source)
            return _chosen(reference, source.get("items") or (), known, mode)
        case "downwardAPI":
            return _downward(source.get("items") or (), known, mode)
        case "projected":
            return _projected(source.get("sources") or (), known, mode)
        case "serviceAccountToken":
            token = _available(known.tokens[token_key(source)])
            return _credential(source, token.text.encode(), known, mode)
        case "clusterTrustBundle":
            anchors = _available(known.trust_bundles[trust_bundle_key(source)])
            return _credential(source, anchors.pem, known, mode)
        case _:
            raise VolumeFailed(f"a projection of {kind} is not supported")


def _available(found: _Found | str) -> _Found:
    if isinstance(found, str):
        raise VolumeFailed(found)
    return found


def _certificate(source: Source, found: PodCertificate, known: Known, mode: int) -> Files:
    """Write a private key and its certificates, together and each alone, as far as there are paths for them."""
    contents = {
        "credentialBundlePath": found.key + found.chain,
        "keyPath": found.key,
        "certificateChainPath": found.chain,
    }
    files: Files = {}
    for field_name, data in contents.items():
        if path := source.get(field_name):
            files |= _credential({"path": path}, data, known, mode)
    return files


def _credential(source: Source, data: bytes, known: Known, mode: int) -> Files:
    """Write a credential, readable only by the containers' common user or group, if they have one."""
    private = known.owner is not None or known.has_group
    return {source["path"]: ProjectedFile(data, _PRIVATE if private else mode, known.owner)}


def _chosen(reference: Reference, items: Sequence[Source], known: Known, mode: int) -> Files:
    """Return all keys of an object, or the listed ones, each under its own path."""
    found = known.objects[reference.key]
    if isinstance(found, str) and not reference.optional:
        raise VolumeFailed(found)
    values = {} if isinstance(found, str) else _values(reference.kind, found.json)
    if not items:
        return {key: ProjectedFile(value, mode) for key, value in values.items()}
    files: Files = {}
    for item in items:
        key = item.get("key") or ""
        if key in values:
            files[item["path"]] = ProjectedFile(values[key], _mode(item, mode))
        elif not reference.optional:
            raise VolumeFailed(_no_key(reference, key, known.pod))
    return files


_NO_KEY: Final = {
    ObjectKind.CONFIG_MAPS: ("configmap references non-existent config key", "ConfigMap"),
    ObjectKind.SECRETS: ("references non-existent secret key", "Secret"),
}


def _no_key(reference: Reference, key: str, pod: Source) -> str:
    """Build the kubelet's message, which does not name the object."""
    words, kind = _NO_KEY[reference.kind]
    return f"{words}: {key} ({kind} {pod['metadata']['namespace']}/{reference.name})"


def _values(kind: ObjectKind, content: Mapping[str, Any]) -> dict[str, bytes]:
    """Return an object's values; in a ConfigMap, text takes precedence over bytes."""
    encoded = content.get("binaryData" if kind is ObjectKind.CONFIG_MAPS else "data") or {}
    values = {key: base64.b64decode(value or "") for key, value in encoded.items()}
    if kind is ObjectKind.CONFIG_MAPS:
        values |= {key: (value or "").encode() for key, value in (content.get("data") or {}).items()}
    return values


def _downward(items: Sequence[Source], known: Known, mode: int) -> Files:
    files: Files = {}
    errors: list[str] = []
    for item in items:
        try:
            text = _field_text(item, known)
        except FieldError as error:
            errors.append(str(error))
        else:
            files[normpath(item["path"])] = ProjectedFile(text.encode(), _mode(item, mode))
    if errors:
        raise VolumeFailed(_aggregate(errors))
    return files


def _field_text(item: Source, known: Known) -> str:
    """Return the content of a file that shows a field of the pod; raises FieldError."""
    if selector := item.get("fieldRef"):
        return metadata_value(known.pod, selector["fieldPath"])
    selector = item["resourceFieldRef"]
    container = find_container(known.pod, selector.get("containerName") or "")
    return resource_value(selector, container, default_limits(known.pod, known.allocatable))


def _projected(sources: Sequence[Source], known: Known, mode: int) -> Files:
    """Join the files of all sources; if two have the same path, the later one wins."""
    files: Files = {}
    errors: list[str] = []
    for index, projection in enumerate(sources):
        for kind, source in projection.items():
            try:
                if kind == "podCertificate":
                    files |= _certificate(source, _available(known.certificates[index]), known, mode)
                else:
                    files |= _files(kind, source, known, mode)
            except VolumeFailed as error:
                errors.append(str(error))
    if errors:
        raise VolumeFailed(_aggregate(errors))
    return files


def _mode(item: Source, default: int) -> int:
    mode = item.get("mode")
    return default if mode is None else int(mode)


def _aggregate(errors: Sequence[str]) -> str:
    """Join error messages into one, each once (k8s.io/apimachinery pkg/util/errors)."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
