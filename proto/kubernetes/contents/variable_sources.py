"""The ConfigMaps and Secrets of a container's variables (pkg/kubelet/kubelet_pods.go makeEnvironmentVariables).

Used where they are read for a start, and where they are watched.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

_FIELDS: Final = (
    *(("configMapRef", "configmaps"), ("configMapKeyRef", "configmaps")),
    *(("secretRef", "secrets"), ("secretKeyRef", "secrets")),
)


def variable_objects(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield them by the API's plural and their name, in the order of use; one may come twice."""
    referring = (one for one in container.get("env") or () if not one.get("value"))  # a literal value takes precedence
    for source in (*(container.get("envFrom") or ()), *(one.get("valueFrom") or {} for one in referring)):
        for field, plural in _FIELDS:
            if chosen := source.get(field):
                yield plural, chosen.get("name", "")
