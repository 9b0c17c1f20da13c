"""A booted machine with containerd 2 as the only node of a cluster, whose control plane and official tests run on this machine."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster import bootstrap_tokens
from tests.cluster.binaries import CONTROL_PLANE, OFFICIAL_TESTS, can_be_had, find_binaries, no_control_plane
from tests.cluster.conformance.official_images import OfficialImages
from tests.cluster.control_plane import ControlPlane
from tests.machine.conformance.newer_containerd import give_official_images, start_newer_containerd
from tests.machine.conformance.way_in import WayIn
from tests.machine.hardware import HOST, Hardware
from tests.machine.joined.node import Joined, left_in
from tests.machine.joined.plane import publish
from tests.machine.machine import Parts, machine_of
from tests.node.images.debian_registry import DebianRegistry

PROGRAMS: Final = (*CONTROL_PLANE, *OFFICIAL_TESTS)
MEMORY_MIB: Final = 4096
SLOW: Final = """\
apiVersion: tempolet.dev/v1alpha1
kind: TempoletConfiguration
temporal: {awayAfter: 10m}
"""
"""Emulated processors are no outage of Temporal: with 5 s the lead of pods goes to and fro, which makes everything slower still."""
SLOW_FILE: Final = "/run/slow.yaml"


@pytest.fixture(scope="package")
def node(machine_parts: Parts, temporal_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    """Boot a machine, and let it join by `tempolet join` with what kubeadm publishes, unedited."""
    if reason := no_control_plane() or can_be_had(PROGRAMS):
        pytest.skip(reason)
    programs, folder = find_binaries(PROGRAMS), tmp_path_factory.mktemp("plane")
    way_in = WayIn(folder)
    plane = ControlPlane(
        folder,
        programs,
        controllers=True,
        controller_flags=bootstrap_tokens.SIGNER,
        apiserver_flags=way_in.flags(),
        hosts=[HOST],
    )
    hardware = Hardware(memory_mib=MEMORY_MIB, reaches_host=True)
    with plane, machine_of(machine_parts, hardware) as machine:
        publish(plane)
        machine.boot()
        start_newer_containerd(machine)
        temporal = f"{HOST}:{temporal_address.rpartition(':')[2]}"
        made = Joined(machine, plane, temporal, "", left_in(machine))
        with way_in.into(machine), DebianRegistry(folder / "registry") as registry:
            give_official_images(machine, OfficialImages(folder / "images", programs), registry)
            try:
                machine.put(SLOW.encode(), SLOW_FILE)
                made.join("--tempolet-config", SLOW_FILE)
                yield made
            finally:
                machine.run("tempolet leave --yes --purge", check=False)
                made.end_pods()
