"""Whether the API server still serves the cluster whose pods run here, and not one with a new, empty etcd.

Asked by `api_source` before a pod is killed for not being listed. An API server with an empty etcd first creates the
Service `default/kubernetes`, with a new uid; a restored backup has the old one. A Node object would not show that, because
the node process registers it again within seconds. The uid seen first is kept in `<root-dir>/tempolet/cluster.uid`.
"""

import asyncio
from pathlib import Path
from typing import Final, Protocol

import structlog

from activities.clients.api_server.errors import ApiRefused
from activities.clients.api_server.resources import SERVICES
from activities.files.atomic_files import write_atomically

FILE: Final = "cluster.uid"

_log: Final = structlog.get_logger(__name__)


class Reads(Protocol):
    """Reads from the API server."""

    async def get(self, path: str) -> dict[str, object]:
        """Read an object; raises ApiAway, ApiRefused."""


class ClusterIdentity:
    """Remembers the cluster, also across restarts."""

    def __init__(self, api: Reads, file: Path) -> None:
        self._api, self._file = api, file
        self._logged = False

    async def is_ours(self) -> bool:
        """Report whether this is the cluster seen first; true if none was seen before. Raises ApiAway."""
        uid, known = await self._uid(), await asyncio.to_thread(self._remembered)
        if uid is None:
            return not known  # an API server that starts with an empty etcd creates the Service a moment later
        if not uid:
            return True
        if known in {"", uid}:
            if not known:
                await asyncio.to_thread(self._remember, uid)
            self._logged = False
            return True
        if not self._logged:
            self._logged = True
            _log.error(
                "the API server serves another cluster than before, or has lost its etcd: no pod is killed for not being listed. "
                f"Restore its etcd; or, if this is the new cluster for good, remove {self._file} and restart the poller",
                was=known,
                now=uid,
            )
        return False

    async def _uid(self) -> str | None:
        """Return the uid; None if there is no such Service, empty if the API does not allow to read it."""
        try:
            found = await self._api.get(SERVICES.path("kubernetes", namespace="default"))
        except ApiRefused as error:
            return None if error.not_found else ""
        metadata = found.get("metadata")
        return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""

    def _remembered(self) -> str:
        try:
            return self._file.read_text().strip()
        except OSError:
            return ""

    def _remember(self, uid: str) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, f"{uid}\n".encode(), mode=0o666)
        except OSError as error:
            _log.warning("could not write down which cluster this is", path=str(self._file), err=str(error))
