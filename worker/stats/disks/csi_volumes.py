"""What CSI drivers say about the volumes of this node: their use, and whether they are well (pkg/volume/csi/csi_metrics.go).

A volume is asked about at a request, and its answer kept like those of other volumes. Each driver is asked by one task, a few
volumes at a time, beginning with those that were asked longest ago: a driver that hangs, or a volume that hangs it, delays
neither the request for long nor other drivers, and has no answer.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from activities.volumes.csi.records.layout import DATA

if TYPE_CHECKING:
    from activities.clients.csi_driver import CsiNode

AT_ONCE: Final = 4
"""Calls to one driver at a time."""
CALL_SECONDS: Final = 20.0
ROUND_SECONDS: Final = 60.0
"""Of one task; volumes that it does not reach are first in the next."""
_LARGEST_RECORD: Final = 64 * 1024
_BYTES: Final = 1
_INODES: Final = 2
_GET_STATS: Final = 2
_CONDITION: Final = 4
"""Numbers of CSI, whose messages are imported with the first volume."""

_log: Final = structlog.get_logger(__name__)


Timed = Callable[[str, float], None]
"""Takes what measured a volume, as the kubelet calls it, and the seconds."""


class CsiVolume(NamedTuple):
    """How a driver knows a volume of a pod."""

    driver: str
    handle: str
    path: str
    """Where it is published to the pod."""


class CsiUsage(NamedTuple):
    """What a driver says of a volume; what it leaves out is 0."""

    at: float
    capacity: int = 0
    available: int = 0
    used: int = 0
    inodes: int = 0
    inodes_free: int = 0
    inodes_used: int = 0
    abnormal: bool | None = None
    """None: not asked, or not known to the driver."""
    message: str = ""


def recorded_volume(folder: Path, path: Path) -> CsiVolume | None:
    """Read which volume is published at a path, from the record in a folder; None without a usable one. Blocks."""
    try:
        with (folder / DATA).open("rb") as file:
            data = json.loads(file.read(_LARGEST_RECORD))
        return CsiVolume(str(data["driverName"]), str(data["volumeHandle"]), str(path))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def usage_of(answer: Any, at: float, *, conditions: bool) -> CsiUsage | None:
    """Read a driver's answer; None if it says nothing. With `conditions` it has to say whether the volume is well.

    Of several numbers of a unit the last one counts; a negative one, which CSI forbids, is 0.
    """
    if not answer.usage and not conditions:
        return None
    found = CsiUsage(at)
    for one in answer.usage:
        total, free, used = (max(number, 0) for number in (one.total, one.available, one.used))
        if one.unit == _BYTES:
            found = found._replace(capacity=total, available=free, used=used)
        elif one.unit == _INODES:
            found = found._replace(inodes=total, inodes_free=free, inodes_used=used)
    if conditions:
        found = found._replace(abnormal=answer.volume_condition.abnormal, message=answer.volume_condition.message)
    return found


class CsiReads:
    """The latest answers, by volume; used from one event loop."""

    def __init__(
        self,
        endpoints: Callable[[], Mapping[str, str]],
        *,
        keep: float,
        wait: float,
        health: bool,
        timed: Timed = lambda *_: None,
    ) -> None:
        """Take what reads the drivers' sockets, how many seconds an answer is valid, and how many a caller waits.

        With `health`, drivers are asked whether volumes are well. `timed` takes how long each call took.
        """
        self._timed = timed
        self._endpoints, self._health = endpoints, health
        self._keep, self._wait = keep, wait
        self._answers: dict[CsiVolume, tuple[float, CsiUsage]] = {}
        self._asked_at: dict[CsiVolume, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def all(self, volumes: Iterable[CsiVolume]) -> dict[CsiVolume, CsiUsage]:
        """Return the answers available in time. A volume of which its driver says nothing has none."""
        wanted = set(volumes)
        self._answers = {one: said for one, said in self._answers.items() if one in wanted or self._is_fresh(one)}
        self._asked_at = {one: at for one, at in self._asked_at.items() if one in wanted}
        stale: dict[str, list[CsiVolume]] = {}
        for one in wanted:
            if not self._is_fresh(one):
                stale.setdefault(one.driver, []).append(one)
        for driver, some in stale.items():
            if driver not in self._asking:
                some.sort(key=lambda one: self._asked_at.get(one, 0.0))
                task = asyncio.create_task(self._ask(driver, some), name=f"volumes of {driver}")
                self._asking[driver] = task
                task.add_done_callback(partial(self._ended, driver))
        if tasks := [self._asking[driver] for driver in stale]:
            await asyncio.wait(tasks, timeout=self._wait)
        return {one: said for one, (_, said) in self._answers.items() if one in wanted}

    def _ended(self, driver: str, _: asyncio.Task[None]) -> None:
        del self._asking[driver]

    def _is_fresh(self, one: CsiVolume) -> bool:
        return one in self._answers and time.monotonic() - self._answers[one][0] < self._keep

    async def _ask(self, name: str, volumes: list[CsiVolume]) -> None:
        """Ask a driver about its volumes, for at most `ROUND_SECONDS`; never raises."""
        from activities.clients.csi_driver import CsiError, connected  # noqa: PLC0415 - 3 MB, for whom has such volumes

        try:
            async with asyncio.timeout(ROUND_SECONDS):
                endpoint = (await asyncio.to_thread(self._endpoints)).get(name)
                if endpoint is None:
                    return
                async with connected(endpoint) as driver:
                    able = await driver.capabilities(CALL_SECONDS)
                    if _GET_STATS in able:
                        await self._ask_each(driver, volumes, conditions=self._health and _CONDITION in able)
        except (CsiError, TimeoutError) as error:
            _log.debug("a CSI driver says nothing about its volumes", driver=name, err=str(error))
        except Exception:  # noqa: BLE001 - a defect of ours costs the statistics of one driver
            _log.exception("unexpected error while asking a CSI driver about its volumes", driver=name)

    async def _ask_each(self, driver: "CsiNode", volumes: list[CsiVolume], *, conditions: bool) -> None:
        left = iter(volumes)

        async def ask_some() -> None:
            for one in left:
                self._asked_at[one] = time.monotonic()
                await self._ask_one(driver, one, conditions=conditions)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(ask_some())

    async def _ask_one(self, driver: "CsiNode", one: CsiVolume, *, conditions: bool) -> None:
        from activities.clients.csi_driver import CsiError  # noqa: PLC0415 - imported by now

        start = time.perf_counter()
        try:
            answer = await driver.volume_stats(one.handle, one.path, CALL_SECONDS)
        except CsiError as error:
            _log.debug("no statistics of a CSI volume", volume=one.path, err=str(error))
            self._answers.pop(one, None)
            return
        finally:
            self._timed(one.driver, time.perf_counter() - start)
        said = usage_of(answer, time.time(), conditions=conditions)
        if said is None:
            self._answers.pop(one, None)
        else:
            self._answers[one] = (time.monotonic(), said)
