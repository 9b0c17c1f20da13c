"""Rules about requests and limits of a container and of the pod as a whole.

Source: pkg/apis/core/validation/validation.go, validateResourceRequirements, validateContainerResourceName,
validatePodResources and validatePodResourceConsistency.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from proto.kubernetes.resources.amounts import format_amount
from proto.kubernetes.resources.extended import is_extended_resource
from proto.kubernetes.resources.huge_pages import page_size
from proto.kubernetes.resources.pod_totals import HUGE_PAGES, container_limits, container_requests, is_pod_level
from proto.kubernetes.resources.qos import resource_list
from proto.kubernetes.resources.quantity import ZERO, Quantity, QuantityError, canonical_quantity, parse_quantity
from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import Key, forbidden, invalid, key_path, not_supported, required

_OF_CONTAINERS: Final = ("cpu", "memory", "ephemeral-storage")
_OF_PODS: Final = ("cpu", HUGE_PAGES, "memory")
_COMPUTE: Final = ("cpu", "memory")
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_KINDS: Final = ("limits", "requests")
NameRule = Callable[[str, str], Iterator[str]]


def validate_resources(resources: Mapping[str, Any], path: str) -> Iterator[str]:
    """Validate a container's requests and limits."""
    yield from _requirements(resources, path, _container_name)


def validate_pod_resources(spec: Mapping[str, Any]) -> Iterator[str]:
    """Validate the pod's own requests and limits, also against those of its containers."""
    resources = spec.get("resources")
    if resources is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden("spec.resources", "may not be set for a windows pod")
        return
    yield from _requirements(resources, "spec.resources", _pod_name)
    yield from _against_containers(spec, "spec.resources")


def _requirements(resources: Mapping[str, Any], path: str, judge_name: NameRule) -> Iterator[str]:
    limits = resources.get("limits", {})
    for kind in _KINDS:
        for name, amount in resources.get(kind, {}).items():
            here = f"{path}.{kind}{key_path([Key(name)])}"
            yield from judge_name(name, here)
            if parse_quantity(amount) < ZERO:
                yield invalid(here, amount, "must be greater than or equal to 0")
            if is_extended_resource(name) and parse_quantity(amount).milli % 1000:
                yield invalid(here, amount, "must be an integer")
            if name.startswith(HUGE_PAGES) and not _whole_pages(name, parse_quantity(amount)):
                yield invalid(here, amount, f"{amount} is not positive integer multiple of {name}")
    for name, amount in resources.get("requests", {}).items():
        yield from _against_limit(name, amount, limits, path)
    asked = [name for kind in _KINDS for name in resources.get(kind, {})]
    if any(name.startswith(HUGE_PAGES) for name in asked) and not set(asked) & set(_COMPUTE):
        yield forbidden(path, "HugePages require cpu or memory")


def _against_limit(name: str, amount: str, limits: Mapping[str, str], path: str) -> Iterator[str]:
    """Validate a request against its limit; huge pages and extended resources cannot be overcommitted."""
    overcommits = _is_native(name) and not name.startswith(HUGE_PAGES)
    if name not in limits:
        if not overcommits:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, limit = parse_quantity(amount), parse_quantity(limits[name])
    said = canonical_quantity(limits[name])
    if not overcommits and asked != limit:
        yield invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {said}")
    elif asked > limit:
        yield invalid(f"{path}.requests", amount, f"must be less than or equal to {name} limit of {said}")


def _whole_pages(name: str, amount: Quantity) -> bool:
    try:
        size = page_size(name)
    except QuantityError:
        return False
    return size > 0 and amount.value % size == 0


def _container_name(name: str, path: str) -> Iterator[str]:
    yield from (invalid(path, name, one) for one in names.qualified_name(name))
    if "/" in name:
        for_quota = next(names.qualified_name(f"requests.{name}"), None)
        if not _is_native(name) and (for_quota or not is_extended_resource(name)):
            yield invalid(path, name, "doesn't follow extended resource name standard")
    elif not name.startswith(HUGE_PAGES) and name not in _OF_CONTAINERS:
        yield invalid(path, name, "must be a standard resource for containers")


def _is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_DOMAIN in name


def _pod_name(name: str, path: str) -> Iterator[str]:
    faults = [invalid(path, name, one) for one in names.qualified_name(name)]
    yield from faults
    if not faults and not is_pod_level(name):
        yield not_supported(path, name, _OF_PODS)


def _against_containers(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    """The pod requests no less than its containers together, and no container's limit exceeds the pod's."""
    pod = {"spec": spec}
    requests, limits = resource_list(spec, "requests"), resource_list(spec, "limits")
    for name, total in container_requests(pod).items():
        if name in requests and total > requests[name]:
            here, said = f"{path}.requests{key_path([Key(name)])}", format_amount(name, total)
            detail = f"must be greater than or equal to aggregate container requests of {said}"
            yield invalid(here, spec["resources"]["requests"][name], detail)
    for name, total in container_limits(pod).items():
        if name.startswith(HUGE_PAGES) and name in limits and total > limits[name]:
            here, said = f"{path}.limits{key_path([Key(name)])}", format_amount(name, total)
            detail = f"must be greater than or equal to aggregate container limits of {said}"
            yield invalid(here, spec["resources"]["limits"][name], detail)
    for index, container in enumerate(spec.get("containers", ())):
        for name, limit in resource_list(container, "limits").items():
            if name in limits and limit > limits[name]:
                here = f"{path}.containers[{index}]{key_path([Key(name)])}.limits"  # as the API writes it
                most = canonical_quantity(spec["resources"]["limits"][name])
                given = container["resources"]["limits"][name]
                yield invalid(here, given, f"must be less than or equal to pod limits of {most}")
