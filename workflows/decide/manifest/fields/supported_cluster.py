"""The supported fields of a pod from an API server: the tables of `supported` and what only a cluster has.

The API server has applied defaults and validated the pod, so it is not validated again. An unknown field is ignored, as
by a kubelet older than its API server. A pod with a known field that is not supported is rejected, so that no pod runs
without one of its fields.
"""

from collections.abc import Mapping
from typing import Any, Final

from workflows.decide.manifest.fields.field_kinds import Fields, Kind, runs
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import CONTAINER, EPHEMERAL_CONTAINER, POD, SPEC
from workflows.decide.manifest.fields.supported_contents import PROJECTED, PROJECTION
from workflows.decide.manifest.fields.supported_security import POD_SECURITY_CONTEXT
from workflows.decide.manifest.fields.supported_volumes import VOLUME

_RESOURCES: Final[Fields] = {
    "requests": runs(Kind.QUANTITY_MAP),
    "limits": runs(Kind.QUANTITY_MAP),
    "claims": runs(Kind.OBJECTS),
}
_CONTAINER: Final[Fields] = {**CONTAINER, "resources": runs(Kind.OBJECT, _RESOURCES)}
_PROJECTION: Final[Fields] = {
    **PROJECTION,
    "serviceAccountToken": runs(Kind.OBJECT),
    "clusterTrustBundle": runs(Kind.OBJECT),
    "podCertificate": runs(Kind.OBJECT),
}
VOLUME_OF_API: Final[Fields] = {
    **VOLUME,
    "projected": runs(Kind.OBJECT, {**PROJECTED, "sources": runs(Kind.OBJECTS, _PROJECTION)}),
    "ephemeral": runs(Kind.OBJECT),
}
_SECURITY: Final[Fields] = {
    **POD_SECURITY_CONTEXT,
    "seLinuxChangePolicy": runs(
        Kind.STRING
    ),  # either way the volumes have the labels; the API allows the second by a gate
}
_SPEC: Final[Fields] = {
    **SPEC,
    "containers": runs(Kind.OBJECTS, _CONTAINER),
    "initContainers": runs(Kind.OBJECTS, _CONTAINER),
    "ephemeralContainers": runs(Kind.OBJECTS, {**EPHEMERAL_CONTAINER, "resources": runs(Kind.OBJECT, _RESOURCES)}),
    "volumes": runs(Kind.OBJECTS, VOLUME_OF_API),
    "securityContext": runs(Kind.OBJECT, _SECURITY),
    "automountServiceAccountToken": runs(Kind.BOOLEAN),
    "affinity": runs(Kind.OBJECT),
    "topologySpreadConstraints": runs(Kind.OBJECTS),
    "schedulingGates": runs(Kind.OBJECTS),
    "schedulingGroup": runs(Kind.OBJECT),
    "evictionResponders": runs(Kind.OBJECTS),
    "resourceClaims": runs(Kind.OBJECTS),
}
POD_OF_API: Final[Fields] = {
    **POD,
    "metadata": runs(Kind.OBJECT),
    "spec": runs(Kind.OBJECT, _SPEC),
    "status": runs(Kind.OBJECT),
}


def unsupported_fields(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """List each field of a pod that this version does not support, and why."""
    lean = {**pod, "spec": {name: value for name, value in pod["spec"].items() if value not in ([], {}, "")}}
    return read_structure(lean, POD_OF_API).not_yet
