"""Validates a document of the objects folder by the API server's rules.

Pure; used by `folder` for each file. Messages name fields and keys, never a value, because they become events and are stored in
histories (pkg/apis/core/validation ValidateConfigMap and ValidateSecret; stringData: pkg/registry/core/secret).
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from activities.objects.objects import ObjectKind
from workflows.decide.manifest.fields.field_errors import forbidden, invalid, required
from workflows.decide.manifest.fields.names import config_map_key

LARGEST_VALUES: Final = 1 << 20
"""Limit for all values of a ConfigMap or a Secret in bytes (MaxSecretSize)."""
_TYPES: Final[Mapping[ObjectKind, tuple[str, str]]] = {
    ObjectKind.CONFIG_MAPS: ("v1", "ConfigMap"),
    ObjectKind.SECRETS: ("v1", "Secret"),
    ObjectKind.PERSISTENT_VOLUME_CLAIMS: ("v1", "PersistentVolumeClaim"),
    ObjectKind.PERSISTENT_VOLUMES: ("v1", "PersistentVolume"),
    ObjectKind.RUNTIME_CLASSES: ("node.k8s.io/v1", "RuntimeClass"),
    ObjectKind.CSI_DRIVERS: ("storage.k8s.io/v1", "CSIDriver"),
    ObjectKind.SERVICE_ACCOUNTS: ("v1", "ServiceAccount"),
    ObjectKind.VOLUME_ATTACHMENTS: ("storage.k8s.io/v1", "VolumeAttachment"),
}
_HEAD: Final = frozenset({"apiVersion", "kind", "metadata"})
_CONFIG_MAP: Final = _HEAD | {"data", "binaryData", "immutable"}
_SECRET: Final = _HEAD | {"data", "stringData", "type", "immutable"}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON_KEYS: Final = frozenset({".dockercfg", ".dockerconfigjson"})


class ObjectInvalid(Exception):
    """The document is not a valid object of its path; the message names the field."""


def expected_kind(kind: ObjectKind) -> str:
    """Describe what a file of that kind must contain."""
    version, name = _TYPES[kind]
    return f"a {name} of apiVersion {version}"


def validate(kind: ObjectKind, namespace: str, name: str, document: Any) -> dict[str, Any]:
    """Return the object in the API's form; raises ObjectInvalid."""
    if not isinstance(document, dict):
        raise ObjectInvalid(f"{expected_kind(kind)} is expected, not a list or a single value")
    for field, value in zip(("apiVersion", "kind"), _TYPES[kind], strict=True):
        if document.get(field) != value:
            raise ObjectInvalid(f"{field}: must be {value}, because it is in the folder {kind}")
    admitted = {**document, "metadata": _metadata(kind, namespace, name, document.get("metadata"))}
    match kind:
        case ObjectKind.CONFIG_MAPS:
            return _config_map(admitted)
        case ObjectKind.SECRETS:
            return _secret(admitted)
        case _:
            return admitted


def _metadata(kind: ObjectKind, namespace: str, name: str, metadata: Any) -> dict[str, Any]:
    """Return the metadata; name and namespace must match the path."""
    if not isinstance(metadata, dict):
        raise ObjectInvalid(required("metadata"))
    if metadata.get("name") != name:
        raise ObjectInvalid(f"metadata.name: must be {name}, as the file is named")
    if not kind.namespaced:
        return metadata
    if metadata.get("namespace") not in {None, "", namespace}:
        raise ObjectInvalid(f"metadata.namespace: must be {namespace}, as the folder is named, or left out")
    return {**metadata, "namespace": namespace}


def _config_map(document: dict[str, Any]) -> dict[str, Any]:
    _known_fields(document, _CONFIG_MAP)
    data, binary = _texts(document, "data"), _texts(document, "binaryData")
    if double := sorted(data.keys() & binary.keys()):
        raise ObjectInvalid(invalid(f"data[{double[0]}]", double[0], "duplicate of key present in binaryData"))
    size = sum(len(value.encode()) for value in data.values())
    size += sum(len(_decoded(f"binaryData[{key}]", value)) for key, value in binary.items())
    _refuse_size(size, "data")
    return {**document, "data": data, "binaryData": binary}


def _secret(document: dict[str, Any]) -> dict[str, Any]:
    _known_fields(document, _SECRET)
    values = {key: _decoded(f"data[{key}]", value) for key, value in _texts(document, "data").items()}
    values |= {key: value.encode() for key, value in _texts(document, "stringData").items()}
    _refuse_size(sum(map(len, values.values())), "data")
    kind = document.get("type") or "Opaque"
    if not isinstance(kind, str):
        raise ObjectInvalid("type: must be text")
    _refuse_incomplete(kind, values)
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    rest = {field: value for field, value in document.items() if field != "stringData"}
    return {**rest, "type": kind, "data": data}


def _known_fields(document: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(document.keys() - known):
        raise ObjectInvalid(f"{unknown[0][:80]}: no such field")
    if not isinstance(document.get("immutable"), bool | None):
        raise ObjectInvalid("immutable: must be true or false")


def _texts(document: Mapping[str, Any], field: str) -> dict[str, str]:
    """Return a mapping of keys to text; null is empty, as in Go."""
    found = document.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ObjectInvalid(f"{field}: must be a mapping of keys to text")
    for key, value in found.items():
        if why := next(config_map_key(key), ""):
            raise ObjectInvalid(invalid(f"{field}[{key[:80]}]", key, why))
        if not isinstance(value, str | None):
            raise ObjectInvalid(f"{field}[{key}]: must be text: put it into quotes")
    return {key: value or "" for key, value in found.items()}


def _decoded(path: str, text: str) -> bytes:
    try:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ObjectInvalid(f"{path}: must be base64") from None  # the cause may quote the value


def _refuse_size(size: int, field: str) -> None:
    if size > LARGEST_VALUES:
        raise ObjectInvalid(f"{field}: Too long: may not be more than {LARGEST_VALUES} bytes")


def _refuse_incomplete(kind: str, values: Mapping[str, bytes]) -> None:
    """Check for the keys that a Secret's type requires."""
    for key in _NEEDED.get(kind, ()):
        if key not in values or (key == "ssh-privatekey" and not values[key]):
            raise ObjectInvalid(required(f"data[{key}]", f"a Secret of type {kind} has it"))
        if key in _JSON_KEYS and not _is_json_object(values[key]):
            raise ObjectInvalid(f"data[{key}]: Invalid value: <secret contents redacted>: must be a JSON object")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & values.keys():
        raise ObjectInvalid(required("data[username]", "or data[password]"))
    if kind == "kubernetes.io/service-account-token":
        raise ObjectInvalid(forbidden("type", "tokens are given by an API server, and this node has none"))


def _is_json_object(value: bytes) -> bool:
    try:
        return isinstance(json.loads(value), dict | None)  # null is an empty map in Go
    except (ValueError, RecursionError):
        return False
