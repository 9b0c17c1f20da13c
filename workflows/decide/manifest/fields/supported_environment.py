"""The supported fields of environment variables; a part of `supported`."""

from typing import Final

from workflows.decide.manifest.fields.field_kinds import Fields, Kind, runs

KEY_SELECTOR: Final[Fields] = {
    "name": runs(Kind.STRING),
    "key": runs(Kind.STRING),
    "optional": runs(Kind.BOOLEAN),
}
OBJECT_REFERENCE: Final[Fields] = {"name": runs(Kind.STRING), "optional": runs(Kind.BOOLEAN)}
FIELD_SELECTOR: Final[Fields] = {"apiVersion": runs(Kind.STRING), "fieldPath": runs(Kind.STRING)}
RESOURCE_SELECTOR: Final[Fields] = {
    "containerName": runs(Kind.STRING),
    "resource": runs(Kind.STRING),
    "divisor": runs(Kind.QUANTITY),
}
FILE_SELECTOR: Final[Fields] = {
    "volumeName": runs(Kind.STRING),
    "path": runs(Kind.STRING),
    "key": runs(Kind.STRING),
    "optional": runs(Kind.BOOLEAN),
}
ENV_VAR_SOURCE: Final[Fields] = {
    "fieldRef": runs(Kind.OBJECT, FIELD_SELECTOR),
    "resourceFieldRef": runs(Kind.OBJECT, RESOURCE_SELECTOR),
    "configMapKeyRef": runs(Kind.OBJECT, KEY_SELECTOR),
    "secretKeyRef": runs(Kind.OBJECT, KEY_SELECTOR),
    "fileKeyRef": runs(Kind.OBJECT, FILE_SELECTOR),
}
ENV_VAR: Final[Fields] = {
    "name": runs(Kind.STRING),
    "value": runs(Kind.STRING),
    "valueFrom": runs(Kind.OBJECT, ENV_VAR_SOURCE),
}
ENV_FROM: Final[Fields] = {
    "prefix": runs(Kind.STRING),
    "configMapRef": runs(Kind.OBJECT, OBJECT_REFERENCE),
    "secretRef": runs(Kind.OBJECT, OBJECT_REFERENCE),
}
