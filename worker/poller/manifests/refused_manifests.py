"""Everything that was refused: by the manifest sources, and by Temporal.

Logs each refusal when it occurs and when it ends, and keeps the file that `tempolet pods` reads.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

import structlog

from proto.refusals import Refusal, write_refusals
from worker.poller.manifests.static_pod import SOURCE

_log: Final = structlog.get_logger(__name__)


class RefusedManifests:
    """All current refusals."""

    def __init__(self, root_dir: Path) -> None:
        self._root_dir = root_dir
        self._listed: dict[str, tuple[Refusal, ...]] = {}
        self._starts: dict[str, Refusal] = {}
        self._written: tuple[Refusal, ...] | None = None

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """All current refusals, by path."""
        return tuple(
            sorted((*chain(*self._listed.values()), *self._starts.values()), key=lambda one: (one.path, one.reason))
        )

    def set_listed(self, refusals: Sequence[Refusal], source: str = SOURCE) -> None:
        """Take what a source refuses now."""
        self._listed[source] = tuple(refusals)
        self._log_and_write()

    def set_start(self, name: str, refusal: Refusal | None) -> None:
        """Take Temporal's refusal of calls for a pod name; None: the calls succeed."""
        before = self._starts.pop(name, None)
        if refusal:
            same = before and before.reason == refusal.reason and (refusal.waits or before.message == refusal.message)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._starts[name] = replace(refusal, since=before.since if same and before else now)
        if refusal or before:
            self._log_and_write()

    def _log_and_write(self) -> None:
        now = self.refusals
        if now == self._written:
            return
        before = {_what(one) for one in self._written or ()}
        for one in now:
            if _what(one) in before:
                continue
            if one.waits:
                _log.info("a pod waits for its admission", reason=one.reason, err=one.message, pod=one.pod)
            else:
                _log.error(
                    "manifest refused",
                    path=one.path,
                    reason=one.reason,
                    err=one.message,
                    pod=one.pod,
                    pod_kept=one.pod_kept,
                )
        refused = {one.path for one in self._written or () if not one.waits}
        for path in sorted(refused - {one.path for one in now}):
            _log.info("manifest no longer refused", path=path)
        self._written = now
        try:
            write_refusals(self._root_dir, now)
        except OSError as error:
            _log.warning("could not write the refused manifests for `tempolet pods`", err=str(error))


def _what(refusal: Refusal) -> tuple[str, str, str]:
    return refusal.path, refusal.reason, refusal.message
