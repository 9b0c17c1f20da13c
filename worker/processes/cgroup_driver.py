"""Settles the cgroup driver when the worker starts: asks the runtime, looks at the machine, decides, records.

Nothing on the machine is changed before that. `tempolet join` asks the same, and records nothing. `worker/settings/cgroups/driver.py` decides.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from activities.clients.cri_error import CriError
from activities.clients.observe import CallObserver
from activities.clients.runtime import RuntimeClient
from activities.clients.start_limit import StartLimit
from activities.clients.systemd.units import systemd_error
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupDriver, CgroupNames
from activities.machine.cgroups import Cgroups, pods_running
from worker.daemon.config import NodeConfig
from worker.daemon.service import Service
from worker.host.cgroups.node_allocatable import refuse_missing_cgroups
from worker.machine.cgroup_driver import record_driver
from worker.settings.cgroups.driver import DriverFacts, chosen_driver, refuse_unusable, runtime_setting
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.user_namespaces import missing_user_namespaces

TRIES: Final = 3
PAUSE: Final = 2.0
"""Seconds between the tries, as in the kubelet."""
_OTHER: Final = {CgroupDriver.SYSTEMD: CgroupDriver.CGROUPFS, CgroupDriver.CGROUPFS: CgroupDriver.SYSTEMD}

_log: Final = structlog.get_logger(__name__)


class RuntimeSilent(Exception):
    """The container runtime does not say which cgroup driver it uses."""


async def cgroup_driver_settled(config: NodeConfig, service: Service, *calls: CallObserver) -> bool:
    """Settle the driver before anything is made, because the names of all cgroups depend on it; False if asked to stop.

    `calls` observe each CRI call. Raises what `settled_names` raises.
    """
    service.status(f"asking the container runtime at {config.container_runtime_endpoint} for its cgroup driver")
    runtime = RuntimeClient(config.container_runtime_endpoint, StartLimit(1), calls)
    settling = asyncio.create_task(settled_names(config, runtime))
    stopping = asyncio.create_task(service.stop_requested())
    try:
        await asyncio.wait({settling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if settling.done():
            settling.result()
            await _tell_of_an_old_runc(runtime)
        return settling.done()
    finally:
        settling.cancel()
        stopping.cancel()
        await runtime.close()


async def settled_names(
    config: NodeConfig, runtime: RuntimeClient, systemd: Callable[[], str] | None = None
) -> CgroupNames:
    """Return the names of this node's cgroups, and record them for the other processes; raises what `usable_names` raises."""
    names = await usable_names(config, runtime, systemd)
    await asyncio.to_thread(refuse_missing_cgroups, Cgroups(names).node, config.enforcement)
    await asyncio.to_thread(record_driver, config.state_dir, names.driver)
    return names


async def usable_names(
    config: NodeConfig, runtime: RuntimeClient, systemd: Callable[[], str] | None = None
) -> CgroupNames:
    """Return the names of this node's cgroups, and change nothing; raises RuntimeSilent, ConfigurationRefused, OSError.

    `systemd` returns why systemd cannot be used, in a thread.
    """
    facts = await _asked(config, runtime)
    driver = chosen_driver(facts)
    if facts.answer is not None and driver != config.cgroup_driver:
        _log.info("the runtime's cgroup driver counts, not the key", cgroupDriver=driver, key=config.cgroup_driver)
    return await asyncio.to_thread(_looked_at, config, driver, systemd or systemd_error)


async def _tell_of_an_old_runc(runtime: RuntimeClient) -> None:
    """Say once, at the start, what pods would wait for in vain."""
    with contextlib.suppress(CriError):  # it was there a moment ago; each pod asks again
        handlers = (await runtime.abilities()).runtime_handlers
        if missing := missing_user_namespaces({one.name: one.features.user_namespaces for one in handlers}):
            _log.info(missing)


async def _asked(config: NodeConfig, runtime: RuntimeClient) -> DriverFacts:
    """Ask the runtime, a few times, because it may be starting too."""
    for left in reversed(range(TRIES)):
        try:
            answer = await runtime.cgroup_driver()
            setting = runtime_setting((await runtime.abilities(verbose=True)).info) if answer is None else None
            return DriverFacts(config.cgroup_driver, answer, setting)
        except CriError as error:
            if not left:
                raise RuntimeSilent(
                    f"the container runtime at {config.container_runtime_endpoint} does not say which cgroup driver it "
                    f"uses: {error}; see that it runs, and start this again"
                ) from error
            await asyncio.sleep(PAUSE)
    raise AssertionError("unreachable")


def _looked_at(config: NodeConfig, driver: CgroupDriver, systemd: Callable[[], str]) -> CgroupNames:
    error = systemd() if driver is CgroupDriver.SYSTEMD else ""
    refuse_unusable(driver, systemd_error=error, others=_others(config, driver))
    try:
        return CgroupNames.below(config.cgroup_root, driver)
    except ValueError as wrong:
        raise ConfigurationRefused(str(wrong)) from wrong


def _others(config: NodeConfig, driver: CgroupDriver) -> list[str]:
    """List the cgroups of the other driver in which pods run."""
    try:
        names = CgroupNames.below(config.cgroup_root, _OTHER[driver])
    except ValueError:  # no name of the other driver's: it has none
        return []
    return pods_running(names, Hierarchies.of_this_node())
