"""Do the examples for cloud-init and Ansible make nodes of a booted machine that has only what Debian's packages and ours bring?

Only what is a placeholder in them is replaced, each on one machine after the other. Ansible runs in the machine itself: there is no SSH.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.wheel import CHECKOUT
from tests.cluster import bootstrap_tokens
from tests.cluster.binaries import no_control_plane
from tests.cluster.cluster_node import condition
from tests.cluster.control_plane import ControlPlane
from tests.machine.hardware import HOST, FolderDisk, Hardware
from tests.machine.images import disks
from tests.machine.installed.debian_packages import make_repository
from tests.machine.installed.instance import APT, BOOT_SECONDS, Instance
from tests.machine.installed.releases import FIRST
from tests.machine.joined.node import NAME, Joined
from tests.machine.joined.plane import running_plane
from tests.machine.joined.runtimes import CNI_CONFIG, NETWORK, import_images
from tests.machine.joined.served_programs import served
from tests.machine.machine import PATIENCE, Machine, Parts, machine_of
from tests.machine.reboots.pods import restarts, until_pods_run
from tests.machine.run_folders import run_folder

EXAMPLES: Final = CHECKOUT / "deploy/provisioning"
PLAYBOOK: Final = "join.playbook.yaml"
DEBIANS: Final = (
    *("cloud-init", "ansible-core", "sudo", "python3-apt"),
    *("containerd", "runc", "containernetworking-plugins", "nftables", "curl"),
)
DISK_MIB: Final = 512
NOWHERE: Final = "0" * 64
"""The hash in the examples."""
IMAGES: Final = "/usr/lib/tempolet/parts/images"
RECAP: Final = re.compile(rf"^{NAME} +: (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def instance(machine_parts: Parts) -> Iterator[Instance]:
    """Boot a machine with cloud-init and a bare Debian otherwise."""
    with run_folder() as folder:
        make_repository(folder / "debian", DEBIANS)
        disks.make_disk(folder / "debian.img", folder / "debian", DISK_MIB)
        seed = folder / "seed"
        seed.mkdir()
        parts = dataclasses.replace(machine_parts, checkout=folder / "debian.img")
        with machine_of(parts, Hardware(reaches_host=True, folder_disks=[FolderDisk("cidata", seed)])) as machine:
            machine.boot()
            one = Instance(machine, seed)
            one.prepare()
            yield one


@pytest.fixture
def bare(instance: Instance) -> Iterator[Instance]:
    """Remove everything afterwards that an example has installed."""
    yield instance
    instance.clear()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane that the machine can join."""
    if reason := no_control_plane():
        pytest.skip(reason)
    with running_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture
def node(bare: Instance, plane: ControlPlane, temporal_address: str) -> Iterator[Joined]:
    """Prepare the machine's network of pods, which a cluster's network plugin brings, for a node that leaves in the end."""
    machine = bare.machine
    machine.put(NETWORK.encode(), CNI_CONFIG)
    yield Joined(machine, plane, f"{HOST}:{temporal_address.rpartition(':')[2]}", "", [])
    machine.run("tempolet leave --yes --purge", check=False)
    plane.api.delete(f"/api/v1/nodes/{NAME}")


@pytest.fixture(scope="module")
def url(packages: Path) -> Iterator[str]:
    """Serve the package."""
    with served(packages) as where:
        yield where


@pytest.mark.machine
def test_cloud_init_makes_a_standalone_node(bare: Instance, packages: Path, url: str) -> None:
    """Its boot ends with a pod that runs."""
    text = _of_ours((EXAMPLES / "standalone.cloud-config.yaml").read_text(), packages, url)
    bare.start("standalone", text)
    until_pods_run(bare.machine, restarts=0, count=1)
    assert list(restarts(bare.machine)) == [f"web-{NAME}"]


@pytest.mark.machine
def test_cloud_init_joins_a_cluster(bare: Instance, node: Joined, packages: Path, url: str) -> None:
    """Its boot ends with a node that is Ready, and the token is gone."""
    text = _of_ours((EXAMPLES / "join.cloud-config.yaml").read_text(), packages, url)
    for placeholder, value in (
        ("https://10.0.0.1:6443", f"https://{HOST}:{node.plane.port}"),
        (f"sha256:{NOWHERE}", bootstrap_tokens.ca_hash(node.plane)),
        ("temporal.example:7233", node.temporal),
        ("abcdef.0123456789abcdef", bootstrap_tokens.TOKEN),
    ):
        text = _replaced(text, placeholder, value)
    bare.start("joined", text)
    bare.machine.run("test ! -e /run/bootstrap-token && systemctl is-enabled containerd tempolet-node")
    assert condition(node.plane.api.get(f"/api/v1/nodes/{NAME}"), "Ready") == "True"
    _run_a_pod(node)


@pytest.mark.machine
def test_the_playbook_joins_a_cluster(bare: Instance, node: Joined, url: str) -> None:
    """And changes nothing when it is run again."""
    machine = bare.machine
    machine.run(f"{APT} install --no-install-recommends ansible-core python3-apt curl", BOOT_SECONDS)
    machine.put((EXAMPLES / PLAYBOOK).read_bytes(), f"/root/{PLAYBOOK}")
    machine.run(f"curl --fail --silent --show-error --output /root/{FIRST} {url}/{FIRST}")
    machine.put(f"[nodes]\n{NAME} ansible_connection=local\n".encode(), "/root/hosts")
    values = {
        "server": f"https://{HOST}:{node.plane.port}",
        "ca_hash": bootstrap_tokens.ca_hash(node.plane),
        "temporal": node.temporal,
        "bootstrap_token": bootstrap_tokens.TOKEN,
    }
    machine.put(json.dumps(values).encode(), "/root/secrets.yaml", 0o600)
    assert _play(machine)["changed"] > 0
    node.plane.api.until(
        f"/api/v1/nodes/{NAME}", lambda found: condition(found, "Ready") == "True", "it is Ready", PATIENCE
    )
    _run_a_pod(node)
    assert _play(machine)["changed"] == 0


def _of_ours(text: str, packages: Path, url: str) -> str:
    """Let an example fetch the package from this machine."""
    checksum = hashlib.sha256((packages / FIRST).read_bytes()).hexdigest()
    return _replaced(_replaced(text, "https://packages.example", url), f'"{NOWHERE} ', f'"{checksum} ')


def _replaced(text: str, placeholder: str, value: str) -> str:
    assert text.count(placeholder) == 1, placeholder
    return text.replace(placeholder, value)


def _run_a_pod(node: Joined) -> None:
    """Run a pod that the API has for this node, and end it."""
    import_images(node.machine, IMAGES)
    node.create("provisioned", "sleep 3600")
    node.running("provisioned")
    node.until_gone("provisioned")


def _play(machine: Machine) -> dict[str, int]:
    """Run the playbook; returns how many tasks did what."""
    command = f"cd /root && ansible-playbook --inventory hosts --extra-vars @secrets.yaml {PLAYBOOK}"
    ran = machine.run(command, BOOT_SECONDS, check=False)
    assert ran.code == 0, f"{ran.stdout[-3000:]}\n{ran.stderr[-1000:]}"
    (told,) = RECAP.findall(ran.stdout)
    return {name: int(count) for name, count in (word.split("=") for word in told.split())}
