"""The machine_* families of /metrics/cadvisor (cAdvisor metrics/prometheus_machine.go)."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from worker.machine.machine import Machine, read_machine
from worker.stats.cgroups.usage import read_text
from worker.telemetry.exposition import Family, labels, single_sample

_CPUS: Final = Path("/sys/devices/system/cpu")


@cache
def machine_families() -> tuple[Family, ...]:
    """Build the machine's families, once: they do not change while it runs."""
    return tuple(_families(read_machine()))


def _families(machine: Machine) -> Iterator[Family]:
    machine_labels = labels(
        {"boot_id": machine.boot_id, "machine_id": machine.machine_id, "system_uuid": machine.system_uuid}
    )
    logical, places = os.cpu_count() or 1, list(_places())
    for name, text, value in (
        ("machine_cpu_cores", "Logical processors.", logical),
        ("machine_cpu_physical_cores", "Cores.", len(set(places)) or logical),
        ("machine_cpu_sockets", "Processors in sockets.", len({package for package, _ in places}) or 1),
        ("machine_memory_bytes", "Memory.", machine.memory_bytes),
        ("machine_swap_bytes", "Swap.", machine.swap_bytes),
    ):
        yield single_sample(name, text, "gauge", value, label_text=machine_labels)
    versions = {
        "cadvisorRevision": "",
        "cadvisorVersion": "",
        "dockerVersion": "",
        "kernelVersion": machine.kernel_version,
        "osVersion": machine.os_image,
    }
    text = "1, with the versions of kernel and system."
    yield single_sample("cadvisor_version_info", text, "gauge", 1, label_text=labels(versions))


def _places() -> Iterator[tuple[bytes, bytes]]:
    """Yield package and core of each CPU."""
    for folder in _CPUS.glob("cpu[0-9]*/topology"):
        yield read_text(f"{folder}/physical_package_id"), read_text(f"{folder}/core_id")
