"""The families of /metrics/resource: cpu, memory and swap, for metrics-server (collectors/resource_metrics.go)."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from worker.stats.cgroups.owners import Owner
from worker.stats.cgroups.usage import CgroupUsage
from worker.telemetry.exposition import Family, labels, single_sample

_NANOSECONDS: Final = 1e9
_COUNTER: Final = "counter"
_GAUGE: Final = "gauge"


class OwnedUsage(NamedTuple):
    """A whole pod (owner: its sandbox), or one of its containers."""

    owner: Owner
    usage: CgroupUsage


def resource_families(node: CgroupUsage | None, used: Sequence[OwnedUsage], *, failed: bool) -> Iterator[Family]:
    """Build the families; `failed`: not everything could be read."""
    if node is not None:
        yield from _of("node", [("", node)])
    pods = [(_labels(one.owner, whole=True), one.usage) for one in used if one.owner.is_sandbox]
    containers = [(_labels(one.owner), one.usage) for one in used if not one.owner.is_sandbox]
    yield _started(one.owner for one in used if not one.owner.is_sandbox)
    yield from _of("container", containers)
    limits = Family("container_swap_limit_bytes", "How much swap it may use.", _GAUGE)
    for labelled, usage in containers:
        if usage.swap_limit is not None:
            limits.add(usage.swap_limit, labelled, _at(usage))
    yield limits
    yield from _of("pod", pods)
    yield single_sample("resource_scrape_error", "1 if not everything could be read.", _GAUGE, failed)


def _of(what: str, rows: Sequence[tuple[str, CgroupUsage]]) -> Iterator[Family]:
    cpu = Family(f"{what}_cpu_usage_seconds_total", f"Cpu time of the {what}.", _COUNTER)
    memory = Family(f"{what}_memory_working_set_bytes", f"Working set of the {what}.", _GAUGE)
    swap = Family(f"{what}_swap_usage_bytes", f"Swap of the {what}.", _GAUGE)
    for labelled, usage in rows:
        at = _at(usage)
        cpu.add(usage.cpu / _NANOSECONDS, labelled, at)
        memory.add(usage.working_set, labelled, at)
        swap.add(usage.swap, labelled, at)
    yield from (cpu, memory, swap)


def _started(owners: Iterable[Owner]) -> Family:
    family = Family("container_start_time_seconds", "When the container was made.", _GAUGE)
    for owner in owners:
        family.add(owner.created, _labels(owner))
    return family


def _at(usage: CgroupUsage) -> int:
    return int(usage.at * 1000)


def _labels(owner: Owner, *, whole: bool = False) -> str:
    place = {"namespace": owner.namespace, "pod": owner.pod}
    return labels(place if whole else {"container": owner.container, **place})
