"""Restarts a node's processes with this release, one after the other, and goes back if one of them does not work in time.

Containers are not touched: pods run on while their worker is away. What is committed to the new release (behaviours) waits until the
upgrade has succeeded, so the release before can lead every pod again.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activities.files.atomic_files import write_atomically
from worker.behaviours.commitment import UPGRADE
from worker.telemetry.process_state import ProcessState
from worker.upgrades.health import has_failed, runs_again, waits_for
from worker.upgrades.services import Services

BETWEEN_LOOKS: Final = 0.2
"""Seconds."""
LARGEST: Final = 4096
"""Bytes of the file of an upgrade that is under way."""


class NotHealthy(Exception):
    """A process does not work in time; the message says which, and why."""


class WentBack(Exception):
    """The upgrade has failed; the message says why, and what runs now."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One upgrade of one node."""

    services: Services
    ask: Callable[[str], ProcessState | None]
    """Asks a process for its state."""
    say: Callable[[str], None]
    """Takes each line for the operator."""
    within: float
    """Seconds that each process has."""

    def run(self) -> None:
        """Switch; raises WentBack if the release before had to be brought back."""
        touched = list[str]()
        try:
            self.services.use_new()
            pids = dict[str, int]()
            for role in self.services.roles:
                touched.append(role)
                pids[role] = self._restarted(role)
            self._require_same(pids)
        except BaseException as error:
            self._go_back(touched, error)
            raise

    def _require_same(self, pids: dict[str, int]) -> None:
        """Raise NotHealthy if a process that worked has ended since."""
        for role, pid in pids.items():
            if (now := self.services.look(role)).pid != pid:
                raise NotHealthy(f"the {role} has ended after it was ready: {now.words}")

    def _restarted(self, role: str) -> int:
        """Restart one process with this release; returns its pid once it works, and raises NotHealthy."""
        began, before = time.monotonic(), self.services.look(role).pid
        self.services.restart(role)
        while True:
            process = self.services.look(role)
            why = waits_for(role, process, self.ask(role), before)
            if not why:
                self.say(f"✓ {time.monotonic() - began:6.2f} s  {role:<12} pid {process.pid}")
                return process.pid
            if has_failed(process):
                raise NotHealthy(f"the {role} has ended: {process.words}")
            if time.monotonic() - began > self.within:
                raise NotHealthy(f"the {role} does not work after {self.within:.0f} s: {why}")
            time.sleep(BETWEEN_LOOKS)

    def _go_back(self, touched: list[str], error: BaseException) -> None:
        """Bring the release before back, in the same order; raises WentBack."""
        why = str(error) or type(error).__name__
        self.say(f"✗ {why}")
        try:
            self.services.use_before()
            for role in touched:
                self._back(role)
        except Exception as failure:  # noqa: BLE001 - whatever it was, the operator has to know both
            raise WentBack(
                f"{why}; and the release before, {self.services.before}, does not work again: {failure}"
            ) from error
        if isinstance(error, Exception):
            raise WentBack(f"{why}; the node is back on {self.services.before}") from error

    def _back(self, role: str) -> None:
        began, before = time.monotonic(), self.services.look(role).pid
        self.services.restart(role)
        while not runs_again(process := self.services.look(role), before):
            if has_failed(process) or time.monotonic() - began > self.within:
                raise NotHealthy(f"the {role} does not run: {process.words}")
            time.sleep(BETWEEN_LOOKS)
        self.say(f"✓ {time.monotonic() - began:6.2f} s  {role:<12} back, pid {process.pid}")


@contextlib.contextmanager
def under_way(state_dir: Path, before: str) -> Iterator[None]:
    """Keep the new worker from committing the node while the block runs, and note where the release before is; raises OSError."""
    file = state_dir / UPGRADE
    write_atomically(file, json.dumps({"before": before}).encode())
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def interrupted(state_dir: Path) -> str:
    """Return where the release before an upgrade was that has not ended; empty if there is none."""
    try:
        with (state_dir / UPGRADE).open("rb") as file:
            return str(json.loads(file.read(LARGEST))["before"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""
