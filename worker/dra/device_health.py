"""The health of the devices that claims have, as drivers report it: the kubelet's healthInfoCache (cm/dra/healthinfo.go).

Fed by the streams of drivers' plugins; read for the statuses of pods (`worker/status/keeper.py`). What a driver said counts for its timeout, and
as long as its stream lasts; then the health is unknown, and the pods' statuses say so at once, where a kubelet's do at their next
synchronization. `<root-dir>/dra_health_state` is written when the health of a device that a claim has changes, so a restart changes no status, and when it
counts no more: `tempolet explain` reads it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog

from activities.files.atomic_files import write_atomically
from proto.dra.device_health import UNKNOWN, DeviceHealth, DeviceKey
from workflows.decide.claims.accounts import Accounts
from workflows.decide.claims.health import DriverHealth, current, reported, resources_status, without
from workflows.decide.claims.health_state import STATE_FILE, read_health, written_health

MOST_DEVICES: Final = 5_000
"""Of one driver."""
MOST_OF_ALL: Final = 20_000
PAUSE: Final = 1.0
"""Seconds between two looks at what has changed: a driver may report other things all the time."""
LARGEST_FILE: Final = 16 * 1024 * 1024
"""Bytes that are read of it."""
PodOf = Callable[[str], Mapping[str, Any]]
"""Returns the pod of a uid, as its source has it; empty if it is not known."""

_log: Final = structlog.get_logger(__name__)


class DevicesHealth:
    """What is known of the devices of all drivers; used from one event loop."""

    def __init__(
        self, root_dir: Path, accounts: Callable[[], Accounts], pod_of: PodOf, *, with_messages: bool = True
    ) -> None:
        """Read what an earlier process or a kubelet has left."""
        self._file, self._accounts, self._pod_of, self._with_messages = (
            root_dir / STATE_FILE,
            accounts,
            pod_of,
            with_messages,
        )
        self.changed: Callable[[Collection[str]], None] = lambda _: None
        """Called with the uids of pods whose devices have another health."""
        self._event = asyncio.Event()
        self._drivers: dict[str, DriverHealth] = _loaded(self._file)
        self._shown: dict[tuple[str, str], Sequence[Mapping[str, Any]]] = {}
        self._written: Mapping[str, Mapping[DeviceKey, DeviceHealth]] | None = None if self._file.exists() else {}
        """None: what an earlier process or a kubelet has left, which may count no more."""

    def take(self, driver: str, plugin: object, devices: Mapping[DeviceKey, DeviceHealth]) -> None:
        """Take a report of one of a driver's plugins; raises ValueError for one that is too large."""
        known, now = self._drivers.get(driver, {}), time.monotonic()
        others = sum(len(one) for name, one in self._drivers.items() if name != driver)
        most = min(MOST_DEVICES, MOST_OF_ALL - others)
        if len(devices) > most:
            raise ValueError(f"it reports the health of {len(devices)} devices, and {most} are left for it")
        found = reported(known, devices, at=now, source=plugin, most=most)
        self._drivers[driver] = found
        if any(current(known, key, now) != said for key, said in devices.items()) or len(found) != len(known):
            self._event.set()

    def forget(self, driver: str, plugin: object) -> None:
        """Forget what a plugin has reported, because its stream has ended."""
        if (known := self._drivers.get(driver)) is None:
            return
        left = without(known, plugin)
        if len(left) < len(known):
            self._event.set()
        self._drivers[driver] = left
        if not left:
            del self._drivers[driver]

    def of(self, pod_uid: str, container: str) -> Sequence[Mapping[str, Any]]:
        """Return the health of the devices that a container has of its claims, as its status shows it."""
        pod = self._pod_of(pod_uid)
        if not pod:
            return ()
        return resources_status(self._accounts(), pod, container, self._now, with_messages=self._with_messages)

    async def run(self) -> None:
        """Tell and write what has changed, for ever: after reports, and when one counts no more."""
        while True:
            self._event.clear()
            self._tell()
            await self.save(only_changed=True)
            await asyncio.sleep(PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_left()):
                    await self._event.wait()

    async def save(self, *, only_changed: bool = False) -> None:
        """Write what counts of the devices that claims have; a file that cannot be written is written at the next change."""
        now = time.monotonic()
        wanted = {
            driver: {key: told for key, told in self._drivers[driver].items() if key in devices and told.until >= now}
            for driver, devices in self._allocated().items()
            if driver in self._drivers
        }
        found = {driver: {key: told.said for key, told in devices.items()} for driver, devices in wanted.items()}
        if found == self._written and (only_changed or not found):
            return
        text = written_health(wanted, datetime.now(UTC), time.monotonic())
        try:
            await asyncio.to_thread(write_atomically, self._file, text.encode(), synced=False)
        except OSError as error:
            _log.error("Failed to save health checkpoint", file=str(self._file), err=str(error))
        else:
            self._written = found

    def _now(self, driver: str, key: DeviceKey) -> DeviceHealth:
        return current(self._drivers.get(driver, {}), key, time.monotonic())

    def _allocated(self) -> dict[str, set[DeviceKey]]:
        found: dict[str, set[DeviceKey]] = {}
        for account in self._accounts().values():
            for driver, devices in account.drivers.items():
                found.setdefault(driver, set()).update((one.pool, one.device) for one in devices)
        return found

    def _tell(self) -> None:
        """Tell of which pods the health of devices is not what it was when this was asked last."""
        uids = {uid for account in self._accounts().values() for uid in account.pods}
        now = {
            (uid, str(one["name"])): self.of(uid, str(one["name"]))
            for uid in uids
            for one in (self._pod_of(uid).get("spec") or {}).get("containers") or ()
        }
        changed = {uid for (uid, container), health in now.items() if self._shown.get((uid, container), ()) != health}
        self._shown = now
        if changed:
            self.changed(changed)

    def _seconds_left(self) -> float | None:
        """Return for how long all that is known counts; None if nothing is known."""
        until = (
            told.until for known in self._drivers.values() for told in known.values() if told.said.health != UNKNOWN
        )
        now = time.monotonic()
        first = min((one for one in until if one >= now), default=None)
        return None if first is None else first - now + 0.01


def _loaded(file: Path) -> dict[str, DriverHealth]:
    try:
        with file.open("rb") as opened:
            text = opened.read(LARGEST_FILE)
        return read_health(text.decode(), datetime.now(UTC), time.monotonic())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.error("Failed to load health checkpoint, proceeding with empty cache", file=str(file), err=str(error))
        return {}
