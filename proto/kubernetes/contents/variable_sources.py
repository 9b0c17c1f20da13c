"""Which ConfigMaps and Secrets a container's variables come from (pkg/kubelet/kubelet_pods.go makeEnvironmentVariables).

Asked where they are read for a start, and where a change of them is waited for.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_FIELDS: Final = (
    *(("configMapRef", "configmaps"), ("configMapKeyRef", "configmaps")),
    *(("secretRef", "secrets"), ("secretKeyRef", "secrets")),
)


def variable_objects(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name them by the API's plural and their own name, in the order in which they are asked for; one may be named twice."""
    told = (one for one in container.get("env") or () if not one.get("value"))  # a value of its own goes before
    for source in (*(container.get("envFrom") or ()), *(one.get("valueFrom") or {} for one in told)):
        for field, plural in _FIELDS:
            if chosen := source.get(field):
                yield plural, chosen.get("name", "")
