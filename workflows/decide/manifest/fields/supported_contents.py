"""The supported fields of volumes whose files the node writes; a part of `supported_volumes`."""

from typing import Final

from workflows.decide.manifest.fields.field_kinds import NEEDS_API, Fields, Kind, not_yet, refused, runs
from workflows.decide.manifest.fields.supported_environment import FIELD_SELECTOR, RESOURCE_SELECTOR

KEY_TO_PATH: Final[Fields] = {
    "key": runs(Kind.STRING),
    "path": runs(Kind.STRING),
    "mode": runs(Kind.INT32),
    "user": not_yet(Kind.INT64),
}
CONFIG_MAP: Final[Fields] = {
    "name": runs(Kind.STRING),
    "items": runs(Kind.OBJECTS, KEY_TO_PATH),
    "defaultMode": runs(Kind.INT32),
    "defaultUser": not_yet(Kind.INT64),
    "optional": runs(Kind.BOOLEAN),
}
SECRET: Final[Fields] = {
    "secretName": runs(Kind.STRING),
    "items": runs(Kind.OBJECTS, KEY_TO_PATH),
    "defaultMode": runs(Kind.INT32),
    "defaultUser": not_yet(Kind.INT64),
    "optional": runs(Kind.BOOLEAN),
}
DOWNWARD_FILE: Final[Fields] = {
    "path": runs(Kind.STRING),
    "fieldRef": runs(Kind.OBJECT, FIELD_SELECTOR),
    "resourceFieldRef": runs(Kind.OBJECT, RESOURCE_SELECTOR),
    "mode": runs(Kind.INT32),
    "user": not_yet(Kind.INT64),
}
DOWNWARD_API: Final[Fields] = {
    "items": runs(Kind.OBJECTS, DOWNWARD_FILE),
    "defaultMode": runs(Kind.INT32),
    "defaultUser": not_yet(Kind.INT64),
}
OBJECT_PROJECTION: Final[Fields] = {
    "name": runs(Kind.STRING),
    "items": runs(Kind.OBJECTS, KEY_TO_PATH),
    "optional": runs(Kind.BOOLEAN),
}
DOWNWARD_PROJECTION: Final[Fields] = {"items": runs(Kind.OBJECTS, DOWNWARD_FILE)}
PROJECTION: Final[Fields] = {
    "configMap": runs(Kind.OBJECT, OBJECT_PROJECTION),
    "secret": runs(Kind.OBJECT, OBJECT_PROJECTION),
    "downwardAPI": runs(Kind.OBJECT, DOWNWARD_PROJECTION),
    "serviceAccountToken": refused(Kind.OBJECT, NEEDS_API),
    "clusterTrustBundle": refused(Kind.OBJECT, NEEDS_API),
    "podCertificate": refused(Kind.OBJECT, NEEDS_API),
}
PROJECTED: Final[Fields] = {
    "sources": runs(Kind.OBJECTS, PROJECTION),
    "defaultMode": runs(Kind.INT32),
    "defaultUser": not_yet(Kind.INT64),
}
