"""The behaviours that a node is committed to: new runs start with them, and older runs are raised to them.

The numbers are those of workflows/decide/versions.py. A commitment cannot be taken back: the previous release refuses runs that
follow a number it does not know. So a new release keeps the committed numbers until the operator commits the node to its own
(`tempolet behaviour --commit`), or until its first start if the configuration has `behaviour.commit: AtStart`. The file is
`<root-dir>/tempolet/behaviour.json`. A new node is committed to the newest numbers at once.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from activities.files.atomic_files import write_json
from workflows.decide.versions import BEHAVIOURS, CURRENT, CURRENT_NODE, NODE_BEHAVIOURS, OLDEST, OLDEST_NODE

FILE: Final = "behaviour.json"
UPGRADE: Final = "upgrade.json"
"""The file is there while `tempolet upgrade` may still go back to the release before (worker/upgrades/)."""
HELD_FOR: Final = 3600.0
"""Seconds after which such a file is that of an upgrade that was interrupted."""
SIGN_OF_A_POLLER: Final = "poller.signals"
"""The file exists if a poller has ever run on this node (worker/temporal/signal_numbers.py)."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Behaviours:
    """One number for the pods' workflows and one for the node's."""

    pods: int
    node: int

    def at_most(self, other: Self) -> "Behaviours":
        """Return the lower number of each kind."""
        return Behaviours(min(self.pods, other.pods), min(self.node, other.node))

    def of(self, kind: str) -> int:
        """Return the number of a kind of workflow, "pods" or "node"."""
        return self.pods if kind == "pods" else self.node

    def __str__(self) -> str:
        return f"{self.pods} of pods, {self.node} of the node"


NEWEST: Final = Behaviours(CURRENT, CURRENT_NODE)
LOWEST: Final = Behaviours(OLDEST, OLDEST_NODE)
BEFORE_COMMITS: Final = Behaviours(2, 1)
"""The numbers of the last release that wrote no file."""


class CommitmentTooOld(Exception):
    """The node is committed to numbers that this release no longer knows; an older release must raise its runs first."""


class Commitment:
    """The commitment of one node, and its file."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE
        self._sign = state_dir / SIGN_OF_A_POLLER
        self._upgrade = state_dir / UPGRADE

    def settle(self, *, at_start: bool = False) -> Behaviours:
        """Write the file if there is none, and with `at_start` commit the node to this release; returns `numbers`.

        Worker and poller call it before the poller writes its own file. Both start even if the disk takes no file. Raises
        CommitmentTooOld.
        """
        ran_before = self._sign.exists()  # first: a poller writes this module's file before its own
        kept = self._load()
        if kept is None:
            kept = BEFORE_COMMITS if ran_before else NEWEST
            self._try_to_write(kept)
        if kept.pods < OLDEST or kept.node < OLDEST_NODE:
            raise CommitmentTooOld(
                f"{self._file} commits the node to behaviours {kept}, this release knows {OLDEST} to {CURRENT} of pods and "
                f"{OLDEST_NODE} to {CURRENT_NODE} of the node: run an older release first, and commit to it "
                "(`tempolet behaviour --commit`)"
            )
        if at_start and kept.at_most(NEWEST) != NEWEST and not self._is_held():
            self._try_to_write(raised(kept))
        numbers = self.numbers
        _log.info("the node is committed to behaviours", pods=numbers.pods, node=numbers.node, newest=str(NEWEST))
        return numbers

    @property
    def numbers(self) -> Behaviours:
        """The committed numbers that this release knows."""
        return (self._load() or BEFORE_COMMITS).at_most(NEWEST)

    def commit(self) -> Behaviours:
        """Commit the node to this release's newest numbers; they never go down. Raises OSError, also if no node has run here."""
        self._write(raised(self._load() or NEWEST))
        return self.numbers

    def _is_held(self) -> bool:
        """Report whether an upgrade may still go back to the release before, which does not know this release's numbers."""
        try:
            return 0 <= time.time() - self._upgrade.lstat().st_mtime < HELD_FOR
        except OSError:
            return False

    def _load(self) -> Behaviours | None:
        try:
            said = json.loads(self._file.read_bytes())
            return Behaviours(int(said["pods"]), int(said["node"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            return BEFORE_COMMITS  # always safe, and `tempolet behaviour` shows it

    def _try_to_write(self, numbers: Behaviours) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._write(numbers)
        except OSError as error:
            _log.warning("could not write the behaviours that the node is committed to", err=str(error))

    def _write(self, numbers: Behaviours) -> None:
        own = self._file.with_name(f".{FILE}.{os.getpid()}")  # worker and poller may write at the same time
        write_json(own, asdict(numbers))
        own.replace(self._file)


def raised(kept: Behaviours) -> Behaviours:
    """Return the newest numbers, or higher ones that a later release committed."""
    return Behaviours(max(kept.pods, CURRENT), max(kept.node, CURRENT_NODE))


def reasons() -> dict[tuple[str, int], str]:
    """Return what each number changed, by kind and number."""
    pods = {("pods", number): reason for number, reason in BEHAVIOURS.items()}
    return pods | {("node", number): reason for number, reason in NODE_BEHAVIOURS.items()}
