"""Which behaviours a node is committed to: what its new runs start with and its older ones are raised to (workflows/decide/versions.py).

A number that is committed cannot be taken back: the release before refuses runs that follow it. So a new release goes on with
the numbers of the one before until the operator says that there is no way back (`tempolet behaviour --commit`), or from its
first start on where the configuration says `behaviour.commit: AtStart`. Kept in `<root-dir>/tempolet/behaviour.json`. A node
that no release has run on before is committed to the newest numbers at once.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from activities.files.atomic_files import write_json
from workflows.decide.versions import BEHAVIOURS, CURRENT, CURRENT_NODE, NODE_BEHAVIOURS, OLDEST, OLDEST_NODE

FILE: Final = "behaviour.json"
SIGN_OF_A_POLLER: Final = "poller.signals"
"""Every poller that ever ran here has left it (worker/temporal/signal_numbers.py)."""

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Behaviours:
    """A number of each kind of workflow."""

    pods: int
    node: int

    def at_most(self, other: Self) -> "Behaviours":
        """Give the lower number of each kind."""
        return Behaviours(min(self.pods, other.pods), min(self.node, other.node))

    def __str__(self) -> str:
        return f"{self.pods} of pods, {self.node} of the node"


NEWEST: Final = Behaviours(CURRENT, CURRENT_NODE)
LOWEST: Final = Behaviours(OLDEST, OLDEST_NODE)
BEFORE_COMMITS: Final = Behaviours(2, 1)
"""The numbers of the last release that kept no file."""


class CommitmentTooOld(Exception):
    """The node is committed to numbers that this release no longer knows: a release in between has to raise its runs first."""


class Commitment:
    """One node's file."""

    def __init__(self, state_dir: Path) -> None:
        self._file = state_dir / FILE
        self._sign = state_dir / SIGN_OF_A_POLLER

    def settle(self, *, at_start: bool = False) -> Behaviours:
        """Write the file where there is none, and commit this release where that is to be done at its start; answers `numbers`.

        Worker and poller call it before the poller leaves its sign; a disk that takes no file keeps neither from starting.
        Raises CommitmentTooOld.
        """
        ran_before = self._sign.exists()  # looked for first: a poller writes our file, then its sign
        kept = self._kept()
        if kept is None:
            kept = BEFORE_COMMITS if ran_before else NEWEST
            self._try_to_write(kept)
        if kept.pods < OLDEST or kept.node < OLDEST_NODE:
            raise CommitmentTooOld(
                f"{self._file} commits the node to behaviours {kept}, this release knows {OLDEST} to {CURRENT} of pods and "
                f"{OLDEST_NODE} to {CURRENT_NODE} of the node: run an older release first, and commit to it "
                "(`tempolet behaviour --commit`)"
            )
        if at_start and kept.at_most(NEWEST) != NEWEST:
            self._try_to_write(raised(kept))
        numbers = self.numbers
        _log.info("the node is committed to behaviours", pods=numbers.pods, node=numbers.node, newest=str(NEWEST))
        return numbers

    @property
    def numbers(self) -> Behaviours:
        """The committed numbers that this release knows."""
        return (self._kept() or BEFORE_COMMITS).at_most(NEWEST)

    def commit(self) -> Behaviours:
        """Commit the node to what this release knows; numbers never go down. Raises OSError, also where no node has run."""
        self._write(raised(self._kept() or NEWEST))
        return self.numbers

    def _kept(self) -> Behaviours | None:
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
            _log.warning("the behaviours that the node is committed to are not written down", err=str(error))

    def _write(self, numbers: Behaviours) -> None:
        own = self._file.with_name(f".{FILE}.{os.getpid()}")  # worker and poller may write at once
        write_json(own, asdict(numbers), synced=True)
        own.replace(self._file)


def raised(kept: Behaviours) -> Behaviours:
    """Give the newest numbers, or a later release's."""
    return Behaviours(max(kept.pods, CURRENT), max(kept.node, CURRENT_NODE))


def reasons() -> dict[tuple[str, int], str]:
    """Say of each number that this release knows what it brought."""
    pods = {("pods", number): reason for number, reason in BEHAVIOURS.items()}
    return pods | {("node", number): reason for number, reason in NODE_BEHAVIOURS.items()}
