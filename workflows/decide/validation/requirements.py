"""Rules about a container's requests and limits.

Called by `containers`; source: pkg/apis/core/validation/validation.go, validateResourceRequirements and
validateContainerResourceName. Huge pages and extended resources are refused by `supported`, so only the rules about
their names stand here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.quantity import ZERO, canonical_quantity, parse_quantity
from workflows.decide.validation import names
from workflows.decide.validation.field_errors import Key, invalid, key_path

_OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"


def validate_resources(resources: Mapping[str, Any], path: str) -> Iterator[str]:
    """Judge requests and limits by themselves and against each other."""
    limits = resources.get("limits", {})
    for kind in ("limits", "requests"):
        for name, amount in resources.get(kind, {}).items():
            here = key_path([Key(name)])
            yield from _name(name, f"{path}.{kind}{here}")
            if parse_quantity(amount) < ZERO:
                yield invalid(f"{path}.{kind}{here}", amount, "must be greater than or equal to 0")
    for name, amount in resources.get("requests", {}).items():
        if name in limits and parse_quantity(amount) > parse_quantity(limits[name]):
            limit = canonical_quantity(limits[name])
            yield invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {limit}")


def _name(name: str, path: str) -> Iterator[str]:
    """Judge a resource's name; what holds a slash is an extended resource, which `supported` refuses."""
    yield from (invalid(path, name, one) for one in names.qualified_name(name))
    if "/" not in name and not name.startswith(_HUGE_PAGES) and name not in _OF_CONTAINERS:
        yield invalid(path, name, "must be a standard resource for containers")
