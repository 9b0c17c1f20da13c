"""Reads the journal, also while another process writes it; writes nothing and never raises."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from activities.files.pod_paths import UnsafeName
from proto.temporal.names import RETENTION_DAYS
from worker.stand_in.journal.kept import Kept, Story, Tombstone, folder_of
from worker.stand_in.journal.private_folder import PrivateFolder
from worker.stand_in.journal.sealed import SealedValues
from worker.stand_in.journal.state import read_state
from worker.stand_in.journal.story import read_story
from worker.stand_in.journal.tombstones import FILE, Tombstones
from worker.temporal.keys import KeyFile

AWAY: Final = "away"
"""In the folder of tempolet's own files."""
MOST_WORKFLOWS: Final = 1024
"""Folders that are read and written."""
RETENTION: Final = timedelta(days=RETENTION_DAYS)
MOST_TOMBSTONES: Final = 4096

_log: Final = structlog.get_logger(__name__)


class JournalReader:
    """For processes that do not write the journal: the commands."""

    def __init__(self, state_dir: Path, keys: KeyFile) -> None:
        """Take the folder of tempolet's own files, and the payload keys."""
        self._path = state_dir / AWAY
        self._sealing = SealedValues(keys)

    def kept(self) -> tuple[Kept, ...]:
        """Read the newest state of every workflow, with the entries that follow it."""
        try:
            with PrivateFolder.open(self._path) as away:
                return tuple(one for one, _ in read_kept(away, self._sealing)[0])
        except OSError:
            return ()

    def gone(self) -> Mapping[str, Tombstone]:
        """Read which pods are gone, by workflow id, oldest first."""
        found = Tombstones(self._sealing, RETENTION, MOST_TOMBSTONES)
        try:
            with PrivateFolder.open(self._path) as away:
                found.read(away, datetime.now(UTC))
        except Exception as error:  # noqa: BLE001 - without the keys, too: a command says what it can
            if not isinstance(error, FileNotFoundError):
                _log.warning("the record of pods that are gone is left out", path=str(self._path), err=str(error))
        return found.gone

    def entries(self, workflow_id: str, after: int = 0) -> Story:
        """Read a pod's story after a position."""
        return story_of(self._path, self._sealing, workflow_id, after)


def read_kept(away: PrivateFolder, sealing: SealedValues) -> tuple[list[tuple[Kept, bytes]], tuple[str, ...]]:
    """Read every workflow, each with the digest of its state, and the names of folders that were left out."""
    kept, left_out = [], []
    names = [one for one in away.names(2 * MOST_WORKFLOWS) if one not in {FILE, f".{FILE}"}]
    if len(names) > MOST_WORKFLOWS:
        _log.warning("the journal has too many folders", path=str(away.path), most=MOST_WORKFLOWS)
    for name in names[:MOST_WORKFLOWS]:
        try:
            with away.below(name) as folder:
                found, digest = read_state(folder, sealing)
                tail = read_story(folder, sealing, found.workflow_id, found.folded)
        except Exception as error:  # noqa: BLE001 - whatever the files hold, the other pods are read
            _log.warning("a pod is left out of the journal", path=str(away.path / name), err=str(error))
            left_out.append(name)
        else:
            kept.append((replace(found, tail=tail), digest))
    return kept, tuple(left_out)


def story_of(path: Path, sealing: SealedValues, workflow_id: str, after: int) -> Story:
    """Read a pod's story after a position."""
    try:
        with PrivateFolder.open(path) as away, away.below(folder_of(workflow_id)) as folder:
            return read_story(folder, sealing, workflow_id, after)
    except FileNotFoundError:
        return Story()
    except (OSError, ValueError, UnsafeName) as error:
        _log.warning("the story of a pod is left out", workflow=workflow_id, err=str(error))
        return Story(unreadable=1)
