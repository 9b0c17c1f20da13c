"""Which cgroup driver counts, and whether this machine can use it: pure.

Asked by the worker at its start (`worker/processes/cgroup_driver.py`), before anything is made. The runtime decides
(cmd/kubelet/app/server.go getCgroupDriverFromCRI); the key `cgroupDriver` counts only for a runtime that cannot tell,
which is containerd before 2.0. Such a one shows its own setting in the configuration that Status returns; if runtime and
node disagreed, pods would run beside their limits.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from activities.machine.cgroup_names import CgroupDriver
from worker.settings.kubelet.configuration import ConfigurationRefused

_ANSWERS: Final = {0: CgroupDriver.SYSTEMD, 1: CgroupDriver.CGROUPFS}
"""CRI's numbers (runtime.v1.CgroupDriver)."""
_RUNC: Final = ("io.containerd.runc.v1", "io.containerd.runc.v2")
_LONGEST_CONFIG: Final = 1024 * 1024
_LONGEST_NAME: Final = 80
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class RuntimeSetting:
    """The driver of one of the runtime's handlers, as its configuration has it."""

    handler: str
    driver: CgroupDriver


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What decides."""

    key: str
    """KubeletConfiguration's cgroupDriver."""
    answer: int | None = None
    """RuntimeConfig's; None: the runtime does not have this call, or its answer is not about Linux."""
    setting: RuntimeSetting | None = None
    """None: the runtime does not show it."""


def chosen_driver(facts: DriverFacts) -> CgroupDriver:
    """Return the driver; raises ConfigurationRefused, which says what to change on which side."""
    if facts.answer is not None:
        if (told := _ANSWERS.get(facts.answer)) is None:
            raise ConfigurationRefused(
                f"the container runtime has the cgroup driver {facts.answer}, which is none that tempolet knows "
                "(0: systemd, 1: cgroupfs); use a runtime that was tried (docs/versions.md)"
            )
        return told
    driver, setting = CgroupDriver(facts.key), facts.setting
    if setting is None or setting.driver is driver:
        return driver
    systemd = setting.driver is CgroupDriver.SYSTEMD
    raise ConfigurationRefused(
        f"cgroupDriver: {driver}, but containerd's handler {setting.handler} uses {setting.driver} (SystemdCgroup = "
        f"{_toml(value=systemd)}); either set cgroupDriver: {setting.driver} in the KubeletConfiguration, or "
        f"SystemdCgroup = {_toml(value=not systemd)} in containerd's config.toml, at containerd.runtimes."
        f"{setting.handler}.options of the CRI plugin, and restart containerd"
    )


def refuse_unusable(driver: CgroupDriver, *, systemd_error: str, others: Sequence[str]) -> None:
    """Raise ConfigurationRefused if this machine cannot use a driver now.

    `systemd_error` says why systemd cannot be used (empty: it can), `others` are cgroups of the other driver in which
    pods run.
    """
    if driver is CgroupDriver.SYSTEMD and systemd_error:
        raise ConfigurationRefused(
            f"the container runtime uses the cgroup driver systemd, and systemd cannot be used: {systemd_error}; boot with "
            "systemd, or set SystemdCgroup = false in containerd's config.toml, and cgroupDriver: cgroupfs where a file has that key"
        )
    if others:
        shown = ", ".join(others[:_MOST_NAMED]) + (
            f" and {len(others) - _MOST_NAMED} more" if others[_MOST_NAMED:] else ""
        )
        raise ConfigurationRefused(
            f"the cgroup driver is {driver} now, and pods of the other one still run, in {shown}; set the runtime's driver "
            "back and drain the node before you change it, or stop these pods' containers and sandboxes with crictl"
        )


def runtime_setting(info: Mapping[str, str]) -> RuntimeSetting | None:
    """Read the driver from the configuration in containerd's verbose status; None if it is not shown there.

    The handlers come in the order in which containerd 2 decides: the default one, then by name; the first of runc counts.
    """
    text = info.get("config", "")
    if not 0 < len(text) <= _LONGEST_CONFIG:
        return None
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return next(_runc_handlers(_mapping(config, "containerd")), None)


def _runc_handlers(containerd: Mapping[str, Any]) -> Iterator[RuntimeSetting]:
    runtimes, default = _mapping(containerd, "runtimes"), containerd.get("defaultRuntimeName")
    for name in sorted(runtimes, key=lambda one: (one != default, one)):
        if _mapping(runtimes, name).get("runtimeType") in _RUNC and len(name) <= _LONGEST_NAME and name.isprintable():
            systemd = _mapping(_mapping(runtimes, name), "options").get("SystemdCgroup") is True
            yield RuntimeSetting(name, CgroupDriver.SYSTEMD if systemd else CgroupDriver.CGROUPFS)


def _mapping(parent: Any, key: str) -> Mapping[str, Any]:
    found = parent.get(key) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}


def _toml(*, value: bool) -> str:
    return "true" if value else "false"
