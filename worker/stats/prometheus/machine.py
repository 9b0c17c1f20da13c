"""The machine_* rows of /metrics/cadvisor, and when the machine was started (cAdvisor metrics/prometheus_machine.go)."""

import os
import platform
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from activities.node_capacity import memory_capacity, swap_capacity
from worker.stats.prometheus.exposition import Family, labels

_CPUS: Final = Path("/sys/devices/system/cpu")
_MACHINE_IDS: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_SYSTEM_UUIDS: Final = (Path("/sys/class/dmi/id/product_uuid"), *_MACHINE_IDS)
_BOOT_IDS: Final = (Path("/proc/sys/kernel/random/boot_id"),)


@cache
def boot_time() -> float:
    """Say when the machine was started, in seconds since 1970, to the second."""
    return float(int(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)))


@cache
def machine_families() -> tuple[Family, ...]:
    """Tell what the machine is, once: it does not become another while it runs."""
    said = labels(
        {"boot_id": _first(_BOOT_IDS), "machine_id": _first(_MACHINE_IDS), "system_uuid": _first(_SYSTEM_UUIDS)}
    )
    return tuple(_families(said))


def _families(said: str) -> Iterator[Family]:
    logical, places = os.cpu_count() or 1, list(_places())
    for name, text, value in (
        ("machine_cpu_cores", "Logical processors.", logical),
        ("machine_cpu_physical_cores", "Cores.", len(set(places)) or logical),
        ("machine_cpu_sockets", "Processors in sockets.", len({package for package, _ in places}) or 1),
        ("machine_memory_bytes", "Memory.", memory_capacity()),
        ("machine_swap_bytes", "Swap.", swap_capacity()),
    ):
        family = Family(name, text, "gauge")
        family.add(value, said)
        yield family
    version = Family("cadvisor_version_info", "1, with the versions of kernel and system.", "gauge")
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "") if Path("/etc/os-release").exists() else ""
    version.add(
        1,
        labels(
            {
                "cadvisorRevision": "",
                "cadvisorVersion": "",
                "dockerVersion": "",
                "kernelVersion": platform.release(),
                "osVersion": system,
            }
        ),
    )
    yield version


def _places() -> Iterator[tuple[str, str]]:
    """Name package and core of each processor."""
    for folder in _CPUS.glob("cpu[0-9]*/topology"):
        yield _first((folder / "physical_package_id",)), _first((folder / "core_id",))


def _first(paths: tuple[Path, ...]) -> str:
    for path in paths:
        try:
            return path.read_text().strip()
        except OSError:
            continue
    return ""
