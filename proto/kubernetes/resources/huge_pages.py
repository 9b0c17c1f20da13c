"""Huge pages: a manifest's names of sizes (hugepages-2Mi), and the kernel's and the runtime's (2MB).

The rules are the kubelet's (kuberuntime_container_linux.go GetHugepageLimitsFromResources, cm/helpers_linux.go
HugePageLimits): a pod and a container have a limit for each size that the node has, zero if they ask for none.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from proto.kubernetes.resources.pod_totals import HUGE_PAGES, ResourceList
from proto.kubernetes.resources.quantity import parse_quantity

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


def page_size(resource: str) -> int:
    """Read the bytes of a page from a resource's name; raises QuantityError."""
    return parse_quantity(resource.removeprefix(HUGE_PAGES)).value


def page_size_name(size: int) -> str:
    """Return the name of a size in the kernel's hugetlb controller."""
    unit = 0
    while size and size % 1024 == 0 and unit < len(_UNITS) - 1:
        size, unit = size // 1024, unit + 1
    return f"{size}{_UNITS[unit]}"


def huge_page_limits(asked: ResourceList, sizes: Iterable[int]) -> tuple[tuple[str, int], ...]:
    """Return the limit in bytes for each size that the node has."""
    given = {page_size(name): amount.value for name, amount in asked.items() if name.startswith(HUGE_PAGES)}
    return tuple((page_size_name(size), given.get(size, 0)) for size in sizes)


def missing_sizes(asked: Mapping[str, object], sizes: Iterable[int]) -> list[str]:
    """Name the resources whose size of page the node does not have."""
    has = set(sizes)
    return sorted(name for name in asked if name.startswith(HUGE_PAGES) and page_size(name) not in has)
