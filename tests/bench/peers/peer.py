"""What the rows ask of a peer, and the part that the two agents have in common: manifests written into a folder."""

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
    """One of a peer's processes, for CPU and memory."""

    name: str
    pid: int


class Peer(ABC):
    """A context manager around one peer: everything up on entry, everything gone on exit, also after an error."""

    name: ClassVar[str]
    number: ClassVar[int]
    processes: ClassVar[tuple[str, ...]] = ()
    """Names of the pid files."""
    knows_objects: ClassVar[bool] = False
    """Whether its pods may have what ConfigMaps and Secrets hold."""

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
        """End and remove everything of this peer; answers what did not go by itself."""
        return self.place.clear(self.processes)

    @abstractmethod
    def begin(self) -> None:
        """Start the peer's own processes and wait until they take pods."""

    def running(self) -> list[Process]:
        """List the peer's own processes and its containerd, as they run now."""
        found = [Process(name, one.pid) for name in self.processes if (one := self.place.process(name).running())]
        daemon = self.containerd.process.running()
        return [*found, Process("containerd", daemon.pid)] if daemon else found

    def pod_name(self, pod: Pod) -> str:
        """Give the name that a static pod has on the node."""
        return f"{pod.name}-{NODE}"

    @property
    def cri(self) -> Cri:
        """The observer of this peer's containerd; there between `connect` and `disconnect`."""
        assert self._cri is not None, "connect first"
        return self._cri

    async def connect(self) -> None:
        """Open what needs the measuring loop."""
        self._cri = Cri(self.containerd.socket)

    async def disconnect(self) -> None:
        """Close it again."""
        if self._cri is not None:
            await self._cri.close()

    @abstractmethod
    async def start(self, pods: Sequence[Pod]) -> float:
        """Ask for pods; answers when the first was asked for (seconds since the epoch)."""

    @abstractmethod
    async def delete(self, pods: Sequence[Pod]) -> float:
        """Ask for pods to go; answers when the first was asked to."""

    @abstractmethod
    async def delete_leftovers(self) -> None:
        """Ask for every pod to go, after a lap that failed."""


class ManifestPeer(Peer):
    """An agent that watches a folder: a pod is asked for by renaming its manifest into it."""

    async def start(self, pods: Sequence[Pod]) -> float:
        """Rename the manifests in, all written before."""
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
        """Ask for the pod's status until it is Ready; answers when that was read. Raises TooSlow."""
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            conditions = (await self.pod_status(pod)).get("conditions", ())
            if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                return time.time()
            await asyncio.sleep(LOOK_CLOSELY)
        raise TooSlow(f"{pod.name} is not ready after {LONGEST:.0f} s")

    @abstractmethod
    async def pod_status(self, pod: Pod) -> Mapping[str, Any]:
        """Read the status that the agent shows, as the API writes it; of a pod that runs."""

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
