"""What every peer provides for the rows, and the common part of the two agents: manifests in a folder."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from tests.bench.cri import LONGEST, LOOK_CLOSELY, Cri, TooSlow
from tests.bench.manifests import Pod
from tests.bench.peers.place import NODE, Place
from worker.standalone.containerd import Containerd


@dataclass(frozen=True, slots=True)
class Process:
    """One of a peer's processes, measured for CPU and memory."""

    name: str
    pid: int


class Peer(ABC):
    """A context manager around one peer: everything is started on entry, and removed on exit, also after an error."""

    name: ClassVar[str]
    number: ClassVar[int]
    processes: ClassVar[tuple[str, ...]] = ()
    """Names of the pid files."""
    knows_objects: ClassVar[bool] = False
    """Whether its pods may use ConfigMaps and Secrets."""

    def __init__(self) -> None:
        self.place = Place(self.name, self.number)
        self.containerd: Containerd = self.place.containerd()
        self._cri: Cri | None = None

    def __enter__(self) -> Self:
        self.clear()
        self.place.make()
        try:
            self.containerd.start()
            for archive in sorted((self.containerd.parts_dir / "images").glob("*.tar")):
                self.containerd.import_image(archive)
            self.begin()
        except BaseException:
            self.clear()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for forced in self.clear():
            print(f"{self.name}: had to be forced: {forced}")

    def clear(self) -> list[str]:
        """Stop and remove everything of this peer; returns what did not stop by itself."""
        return self.place.clear(self.processes)

    @abstractmethod
    def begin(self) -> None:
        """Start the peer's own processes and wait until they accept pods."""

    def running(self) -> list[Process]:
        """List the running processes of the peer and its containerd."""
        found = [Process(name, one.pid) for name in self.processes if (one := self.place.process(name).running())]
        daemon = self.containerd.process.running()
        return [*found, Process("containerd", daemon.pid)] if daemon else found

    def pod_name(self, pod: Pod) -> str:
        """Return a static pod's name on the node."""
        return f"{pod.name}-{NODE}"

    @property
    def cri(self) -> Cri:
        """The observer of this peer's containerd; exists between `connect` and `disconnect`."""
        assert self._cri is not None, "connect first"
        return self._cri

    async def connect(self) -> None:
        """Open connections, which need the event loop."""
        self._cri = Cri(self.containerd.socket)

    async def disconnect(self) -> None:
        """Close them."""
        if self._cri is not None:
            await self._cri.close()

    @abstractmethod
    async def start(self, pods: Sequence[Pod]) -> float:
        """Start pods; returns the time of the first request (seconds since the epoch)."""

    @abstractmethod
    async def delete(self, pods: Sequence[Pod]) -> float:
        """Delete pods; returns the time of the first request."""

    @abstractmethod
    async def delete_leftovers(self) -> None:
        """Delete every pod, after a lap that failed."""


class ManifestPeer(Peer):
    """An agent that watches a folder: renaming a manifest into it starts the pod."""

    async def start(self, pods: Sequence[Pod]) -> float:
        """Rename the manifests into the folder, after all are written."""
        return self._rename_in(pods)

    async def delete(self, pods: Sequence[Pod]) -> float:
        """Remove the manifests."""
        at = time.time()
        for pod in pods:
            (self.place.manifests / f"{pod.name}.yaml").unlink()
        return at

    async def delete_leftovers(self) -> None:
        """Remove every manifest."""
        for manifest in _listed(self.place.manifests):
            manifest.unlink()

    async def ready(self, pod: Pod) -> float:
        """Poll the pod's status until it is Ready; returns when that was read. Raises TooSlow."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            conditions = (await self.pod_status(pod)).get("conditions", ())
            if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                return time.time()
            await asyncio.sleep(LOOK_CLOSELY)
        raise TooSlow(f"{pod.name} is not ready after {LONGEST:.0f} s")

    @abstractmethod
    async def pod_status(self, pod: Pod) -> Mapping[str, Any]:
        """Read a running pod's status from the agent, in the API's format."""

    def _rename_in(self, pods: Sequence[Pod]) -> float:
        written = []
        for pod in pods:
            scratch = self.place.home / f"{pod.name}.new"
            scratch.write_text(pod.manifest())
            written.append((scratch, self.place.manifests / f"{pod.name}.yaml"))
        at = time.time()
        for scratch, target in written:
            scratch.rename(target)
        return at


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir())
