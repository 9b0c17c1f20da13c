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
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from worker.standalone.containerd_config import (
    ContainerdOptions,
    ContainerdPlaces,
    cni_config,
    containerd_config,
    port_mapper,
)
from worker.standalone.cri_client import CriClient, RuntimeNotReady
from worker.standalone.machine import leftovers, links, owner_marks, programs
from worker.standalone.machine.process import Command, Supervised
from worker.standalone.machine.process_log import ProcessLog
from worker.standalone.machine.units import NodeUnits
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.pod_network.rules import PodRules

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

    Needs root. `cgroup` is the cgroup below which this instance's pods run: `stop` kills and removes everything in it,
    unless it is marked as another instance's.
    """

    places: ContainerdPlaces
    network: PodNetwork = field(default_factory=PodNetwork)
    cgroup: str = "/tempolet"
    parts_dir: Path = field(default_factory=programs.default_parts_dir)
    units: NodeUnits | None = None
    """What starts it; None: by itself."""

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
        return Supervised(self.places.pid_file, self.units)

    @property
    def log(self) -> ProcessLog:
        """Where the daemon logs."""
        return self.process.log(self.places.log)

    @property
    def owner(self) -> str:
        """What its marks on bridge and cgroup name: the folder by which a node is found."""
        return str(self.places.run.resolve())

    def owns_bridge(self) -> bool:
        """Report whether the bridge is its own: marked so, or without a mark and left by a release before marks."""
        mark = owner_marks.bridge_mark(self.network.bridge)
        return mark.owner == self.owner if mark else self._was_started()

    def owns_cgroup(self) -> bool:
        """Report the same of the cgroup."""
        found = owner_marks.cgroup_owner(self.cgroup)
        return found == self.owner if found else self._was_started()

    def _was_started(self) -> bool:
        """Report whether its folder has configuration files: they are written when bridge and cgroup are claimed."""
        return self.places.config.exists() or (self.places.run / "config").is_dir()

    def start(self) -> str:
        """Start it unless it runs, and wait until it is ready; returns name and version.

        Raises MissingProgram if a program is missing, TakenByAnother if bridge, subnet or cgroup is another instance's,
        ContainerdFailed if it does not become ready.
        """
        if self.process.running():
            _add(self._rules())
        else:
            self.process.start(self.prepare())
        try:
            with CriClient(self.socket) as runtime:
                return runtime.wait_until_ready(READY_WITHIN)
        except RuntimeNotReady as error:
            raise ContainerdFailed(f"{error}\n{self.log.ending()}") from error

    def prepare(self) -> Command:
        """Make what it needs in the kernel and in its run folder, also after a boot; returns how to start it. Raises as `start`."""
        rules = self._rules()
        containerd, runc = (programs.find_program(p, self.parts_dir) for p in (programs.CONTAINERD, programs.RUNC))
        shim = programs.find_program(programs.SHIM, self.parts_dir)
        self._claim()
        self._write_configuration(runc, rules, host_ports=_add(rules))
        nft = rules.nft
        path = programs.search_path(*(program for program in (containerd, shim, runc, nft) if program))
        argv = [str(containerd), "--config", str(self.places.config)]
        return Command(argv, self.places.log, {"PATH": path}, umask=0o022)  # containers inherit it

    def forget_former_boot(self) -> None:
        """Remove what its run folder, if that outlives a boot, and CNI's cache have of a boot before: nothing of it is in the kernel any more.

        libcni does not sync its cache, and containerd takes no sandbox down whose result was cut off by a power loss. Without a result it
        does. A network that was made for a sandbox of which containerd knew nothing yet has nobody else to remove its result.
        """
        for directory in (self.places.state, self.places.addresses, self.places.cni_config):
            shutil.rmtree(directory, ignore_errors=True)
        for entry in (*CNI_CACHE.glob(f"{self.network.bridge}-*"), *_broken_loopbacks()):
            entry.unlink(missing_ok=True)

    def _claim(self) -> None:
        """Take bridge and cgroup. Raises TakenByAnother, and ContainerdFailed if the kernel refuses."""
        try:
            owner_marks.claim_bridge(self.network.bridge, self.owner, self.network.subnet)
            owner_marks.claim_cgroup(self.cgroup, self.owner)
        except OSError as error:
            raise ContainerdFailed(f"pods' bridge or cgroup could not be made: {error}") from error

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
        # of a containerd before 1.7.26 (`sync_fs`) a power loss would leave the image with empty files
        subprocess.run(["sync", "--file-system", self.places.root], capture_output=True, timeout=120, check=False)
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
        """Remove what a stopped containerd left: shims, processes, mounts, links, cgroups, rules.

        What is not below its folders is removed only if it is its own.
        """
        owns_cgroup = self.owns_cgroup()
        left = leftovers.shims_of(self.socket)
        left += leftovers.processes_in_cgroup(self.cgroup) if owns_cgroup else []
        leftovers.kill_all(left)
        forced = [f"{len(left)} processes of pods killed"] if left else []
        leftovers.unmount_below(self.places.state, self.places.root / "containerd")
        forced += self._clean_network() if self.owns_bridge() else []
        forced += [f"cgroup {stuck}" for stuck in leftovers.remove_cgroup(self.cgroup)] if owns_cgroup else []
        for directory in (self.places.state, self.places.addresses, self.places.cni_config):
            shutil.rmtree(directory, ignore_errors=True)
        for file in (self.places.socket, self.places.ttrpc_socket, self.places.config):
            file.unlink(missing_ok=True)
        return forced

    def _clean_network(self) -> list[str]:
        """Remove the bridge, what is attached to it, and the rules; the bridge has the mark, so it goes last."""
        attached = links.links_on_bridge(self.network.bridge)
        for link in attached:
            links.delete_link(link)
        self._rules().remove()
        if CNI_CACHE.is_dir():
            for entry in CNI_CACHE.glob(f"{self.network.bridge}-*"):
                entry.unlink(missing_ok=True)
        links.delete_link(self.network.bridge)
        return [f"link {link} deleted" for link in attached]

    def _rules(self) -> PodRules:
        iptables = shutil.which("iptables", path=programs.search_path())
        return PodRules(self.network, self._optional(programs.NFT), Path(iptables) if iptables else None)

    def _write_configuration(self, runc: Path, rules: PodRules, *, host_ports: bool) -> None:
        plugins = programs.find_cni_plugins(self.parts_dir)
        for directory in (self.places.root, self.places.run, self.places.cni_config, self.places.addresses):
            directory.mkdir(parents=True, exist_ok=True, mode=0o711)
        speaks = programs.newest_cni_protocol(plugins / "portmap")
        mapper = port_mapper(nft=bool(rules.nft), iptables=bool(rules.iptables), protocol=speaks)
        config = cni_config(self.network, self.places.addresses, mapper if host_ports else None)
        (self.places.cni_config / "10-tempolet.conflist").write_text(config)
        dependencies = ContainerdOptions(
            runc=runc, cni_plugins=plugins, restrict_oom_score=not has_capability(CAP_SYS_RESOURCE)
        )
        self.places.config.write_text(containerd_config(self.places, dependencies))

    def _optional(self, program: programs.Program) -> Path | None:
        with contextlib.suppress(programs.MissingProgram):
            return programs.find_program(program, self.parts_dir)
        return None


def _add(rules: PodRules) -> bool:
    """Add them; False if nothing keeps pods from the node's loopback. Raises ContainerdFailed."""
    try:
        return rules.add()
    except subprocess.CalledProcessError as error:
        raise ContainerdFailed(f"the pods' firewall rules were refused: {error.stderr.strip()}") from error


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


def _broken_loopbacks() -> Iterator[Path]:
    """Yield what was cut off of the results that all nodes' sandboxes share a name for."""
    for entry in CNI_CACHE.glob("cni-loopback-*"):
        try:
            json.loads(entry.read_bytes())
        except OSError:
            continue
        except ValueError:
            yield entry
