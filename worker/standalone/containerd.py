"""A private containerd: configuration, start, images, and a stop that leaves nothing in the kernel.

Used by `up` and `down` and by test fixtures, which run several at once: everything that could collide (folders, socket,
bridge, subnet, cgroup) is a parameter. containerd and its shims outlive the command that starts them; a second `start`
finds them again.
"""

import contextlib
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from worker.standalone import nft_rules
from worker.standalone.containerd_config import (
    ContainerdOptions,
    ContainerdPlaces,
    PodNetwork,
    cni_config,
    containerd_config,
    port_mapper,
)
from worker.standalone.cri_client import CriClient, RuntimeNotReady
from worker.standalone.machine import leftovers, programs
from worker.standalone.machine.process import Command, Supervised, last_lines

READY_WITHIN: Final = timedelta(seconds=30)
IMAGES_WITHIN: Final = timedelta(seconds=30)
CAP_SYS_RESOURCE: Final = 24  # capabilities(7)
IMAGE_NAMESPACE: Final = "k8s.io"  # containerd's namespace for what CRI sees
CNI_CACHE: Final = Path("/var/lib/cni/results")  # libcni's; containerd gives no way to move it


class ContainerdFailed(Exception):
    """The private containerd failed; the message has the end of its log."""


@dataclass(slots=True)
class Containerd:
    """One private containerd and everything that belongs to it; a context manager that starts and stops it.

    Needs root. `cgroup` is the cgroup below which this instance's pods run: `stop` kills and removes everything in it.
    """

    places: ContainerdPlaces
    network: PodNetwork = field(default_factory=PodNetwork)
    cgroup: str = "/tempolet"
    parts_dir: Path = field(default_factory=programs.default_parts_dir)

    def __enter__(self) -> "Containerd":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def socket(self) -> Path:
        """The CRI socket."""
        return self.places.socket

    @property
    def endpoint(self) -> str:
        """The CRI socket as KubeletConfiguration's containerRuntimeEndpoint."""
        return f"unix://{self.socket}"

    @property
    def process(self) -> Supervised:
        """The daemon."""
        return Supervised(self.places.pid_file)

    def start(self) -> str:
        """Start it unless it runs, and wait until it is ready; returns name and version.

        Raises MissingProgram if a program is missing, ContainerdFailed if it does not become ready.
        """
        if not self.process.running():
            containerd, runc = (programs.find_program(p, self.parts_dir) for p in (programs.CONTAINERD, programs.RUNC))
            shim = programs.find_program(programs.SHIM, self.parts_dir)
            nft = self._optional(programs.NFT)
            self._write_configuration(runc, nft)
            if nft:
                nft_rules.masquerade(nft, self.network)
            path = programs.search_path(*(program for program in (containerd, shim, runc, nft) if program))
            argv = [str(containerd), "--config", str(self.places.config)]
            self.process.start(Command(argv, self.places.log, {"PATH": path}, umask=0o022))  # containers inherit it)
        try:
            with CriClient(self.socket) as runtime:
                return runtime.wait_until_ready(READY_WITHIN)
        except RuntimeNotReady as error:
            raise ContainerdFailed(f"{error}\n{self.places.log} ends:\n{last_lines(self.places.log)}") from error

    def import_image(self, archive: Path) -> None:
        """Import an OCI archive, and wait until CRI knows every image in it.

        CRI learns of an image by an event, a moment after `ctr` has ended; a sandbox requested before that would have
        its image pulled, perhaps from a registry that is not even reachable.
        """
        ctr = programs.find_program(programs.CTR, self.parts_dir)
        argv = [
            str(ctr),
            "--address",
            str(self.socket),
            "--namespace",
            IMAGE_NAMESPACE,
            "images",
            "import",
            str(archive),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise ContainerdFailed(f"image archive {archive} could not be imported: {done.stderr.strip()}")
        with CriClient(self.socket) as runtime:
            try:
                runtime.wait_for_images(image_names(archive), IMAGES_WITHIN)
            except RuntimeNotReady as error:
                raise ContainerdFailed(f"{archive} was imported, but {error}") from error

    def remove_pods(self) -> dict[str, str]:
        """Stop and remove every pod without grace; returns errors by sandbox id. Does nothing if it does not run."""
        if not self.process.running():
            return {}
        with CriClient(self.socket) as runtime:
            return runtime.remove_sandboxes([sandbox.id for sandbox in runtime.sandboxes()])

    def stop(self) -> list[str]:
        """Remove all pods, stop containerd, and remove what is left of either; returns what had to be forced."""
        forced = [f"sandbox {sandbox}: {error}" for sandbox, error in self.remove_pods().items()]
        if not self.process.stop(within=10):
            forced.append("containerd had to be killed")
        return forced + self.clean()

    def clean(self) -> list[str]:
        """Remove what a stopped containerd left: shims, processes, mounts, links, cgroups, rules."""
        left = leftovers.shims_of(self.socket)
        left += leftovers.processes_in_cgroup(self.cgroup)
        leftovers.kill_all(left)
        forced = [f"{len(left)} processes of pods killed"] if left else []
        leftovers.unmount_below(self.places.state, self.places.root / "containerd")
        links = leftovers.links_on_bridge(self.network.bridge)
        for link in [*links, self.network.bridge]:
            leftovers.delete_link(link)
        forced += [f"link {link} deleted" for link in links]
        forced += [f"cgroup {stuck}" for stuck in leftovers.remove_cgroup(self.cgroup)]
        if nft := self._optional(programs.NFT):
            nft_rules.remove_rules(nft, self.network)
        if CNI_CACHE.is_dir():
            for entry in CNI_CACHE.glob(f"{self.network.bridge}-*"):
                entry.unlink(missing_ok=True)
        for directory in (self.places.state, self.places.addresses, self.places.cni_config):
            shutil.rmtree(directory, ignore_errors=True)
        for file in (self.places.socket, self.places.ttrpc_socket, self.places.config):
            file.unlink(missing_ok=True)
        return forced

    def _write_configuration(self, runc: Path, nft: Path | None) -> None:
        plugins = programs.find_cni_plugins(self.parts_dir)
        for directory in (self.places.root, self.places.run, self.places.cni_config, self.places.addresses):
            directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        iptables = shutil.which("iptables", path=programs.search_path())
        speaks = programs.newest_cni_protocol(plugins / "portmap")
        mapper = port_mapper(nft=bool(nft), iptables=bool(iptables), protocol=speaks)
        config = cni_config(self.network, self.places.addresses, mapper)
        (self.places.cni_config / "10-tempolet.conflist").write_text(config)
        dependencies = ContainerdOptions(
            runc=runc, cni_plugins=plugins, restrict_oom_score=not has_capability(CAP_SYS_RESOURCE)
        )
        self.places.config.write_text(containerd_config(self.places, dependencies))

    def _optional(self, program: programs.Program) -> Path | None:
        with contextlib.suppress(programs.MissingProgram):
            return programs.find_program(program, self.parts_dir)
        return None


def image_names(archive: Path) -> list[str]:
    """Read the full names of the images in an OCI archive."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        manifests = json.load(index)["manifests"] if index else []
    return [manifest["annotations"]["io.containerd.image.name"] for manifest in manifests]


def has_capability(number: int) -> bool:
    """Report whether this process has a capability (capabilities(7)) in its effective set."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False
