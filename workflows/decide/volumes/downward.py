"""What a start carries for variables that show fields of the pod and the node.

`activities/cri_config/environment.py` sets the values. Metadata and the resources of all containers are in every
sandbox's slice already.
"""

from collections.abc import Mapping
from typing import Any, Final

from proto.dra.pod_claims import claims_slice, uses_claims
from proto.temporal.pod import PodJson
from workflows.decide.situation import Situation
from workflows.decide.slices import own_part, sandbox_slice

_SPEC_FIELDS: Final = {
    "spec.nodeName": "nodeName",
    "spec.host": "nodeName",  # its former name
    "spec.serviceAccountName": "serviceAccountName",
}


def start_slice(pod: PodJson, name: str) -> PodJson:
    """Cut what starting a container needs of its pod; raises KeyError for an unknown name."""
    cut, spec = sandbox_slice(pod), pod["spec"]
    shown = {_SPEC_FIELDS[path] for path in _fields(own_part(pod, name)) if path in _SPEC_FIELDS}
    cut["spec"] |= {field: spec[field] for field in sorted(shown) if spec.get(field)}
    if spec.get("enableServiceLinks") is False:
        cut["spec"]["enableServiceLinks"] = False
    if uses_claims(pod):
        claims = claims_slice(pod)
        cut["spec"] |= claims["spec"]
        cut["status"] = claims["status"]
    return cut


def host_ips_shown(situation: Situation, name: str) -> tuple[str, ...]:
    """Return the node's addresses if a variable of the container shows them, or the pod's, which may be the same."""
    shown = any(path.startswith("status.") for path in _fields(own_part(situation.source, name)))
    return situation.settings.host_ips if shown else ()


def _fields(container: Mapping[str, Any]) -> set[str]:
    """Name the fields that a container's variables show."""
    chosen = ((one.get("valueFrom") or {}).get("fieldRef") or {} for one in container.get("env") or ())
    return {path for selector in chosen if (path := selector.get("fieldPath"))}
