"""Can a kubelet be replaced by us and back: does each start on the other's `dra_manager_state`, and refuse what does not suit?"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from activities.clients.dra.dra_drivers import DRA_PLUGIN, DraDrivers
from activities.clients.plugins.kinds import register
from proto.temporal.pod import PodKey
from tests.cluster.api import Api
from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.dra.claims import CLAIMS, claim, device_class, reserve, using
from tests.cluster.dra.official_driver import find_driver, official_driver
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from tests.cluster.peers.state_files import created, until_gone, until_ready, until_told
from tests.node.tempolet_node import PATIENCE
from worker.dra.claim_manager import ClaimManager, load_accounts
from worker.settings.kubelet.configuration import ConfigurationRefused
from workflows.decide.claims.accounts import Accounts
from workflows.decide.claims.checkpoint import STATE_FILE, read_checkpoint


@dataclass(frozen=True, slots=True)
class Kubelets:
    """The kubelet's node, as drivers and claims see it."""

    plane: ControlPlane
    root_dir: Path
    directory: Path
    name: str = NAME

    @property
    def api(self) -> Api:
        """The API, as an administrator."""
        return self.plane.api

    def create_pod(self, manifest: dict[str, Any], /) -> Any:
        """Create a pod that is bound to it."""
        return created(self.plane, manifest)

    def using(self, name: str, driver: str) -> Any:
        """Create a pod with a claim of its own name, which is allocated and reserved for it."""
        claim(self, name, driver)
        pod = using(self, name, name)
        reserve(self, name, pod)
        return pod

    def remove(self, name: str) -> None:
        """Delete the pod, and its claim when it is gone."""
        self.api.delete(pods_path(name=name), gracePeriodSeconds=1)
        self.api.until(pods_path(name=name), bool, f"{name} is gone", PATIENCE, gone=True)
        self.api.delete(f"{CLAIMS}/{name}")


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    try:
        find_driver()
    except NoBinaries as error:
        pytest.skip(str(error))


@pytest.fixture
def driver_name(slot: int) -> str:
    """Return a name of this session's own: CDI files are the machine's."""
    return f"tempolet{slot}.peers.k8s.io"


def devices(accounts: Accounts) -> set[tuple[str, frozenset[str], str, str, str, tuple[str, ...]]]:
    """List the devices of all claims: claim, pods, driver, pool, device, CDI devices."""
    return {
        (one.claim.uid, one.pods, driver, device.pool, device.device, device.cdi_device_ids)
        for one in accounts.values()
        for driver, found in one.drivers.items()
        for device in found
    }


def test_we_start_on_the_kubelets_file(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path, driver_name: str
) -> None:
    """With the devices of its pods; what we write of it is what it has written."""
    home = node_dir / "kubelets-claims"
    kubelets = Kubelets(plane, kubelet_node.root_dir(home), tmp_path)
    with kubelet_node.running(home, {}), device_class(kubelets):
        until_ready(plane, f"/api/v1/nodes/{NAME}")
        with official_driver(kubelets, driver_name):
            pod = kubelets.using("kept", driver_name)
            until_ready(plane, pods_path(name="kept"))
            written = (kubelets.root_dir / STATE_FILE).read_bytes()
            kubelets.remove("kept")
    (tmp_path / STATE_FILE).write_bytes(written)
    accounts = load_accounts(tmp_path)
    [(_, pods, driver, pool, device, ids)] = devices(accounts)
    assert (set(pods), driver, pool, device) == ({pod["metadata"]["uid"]}, driver_name, NAME, "device-00")
    assert all(one.startswith(f"{driver_name}/") for one in ids)
    manager = ClaimManager(tmp_path, DraDrivers(), _nobody_reads, accounts)
    asyncio.run(manager._know(()))  # nothing has changed
    assert (tmp_path / STATE_FILE).read_bytes() == written


async def _nobody_reads(namespace: str, name: str) -> Mapping[str, Any]:
    raise AssertionError(f"{namespace}/{name}")


async def prepared_by_us(root_dir: Path, api: Api, driver: str, pod: Any) -> None:
    """Have the driver prepare the claims of a pod for us."""

    async def read(_: str, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await asyncio.to_thread(api.get, f"{CLAIMS}/{name}")
        return found

    drivers = DraDrivers()
    try:
        socket = root_dir / "plugins_registry" / f"{driver}-reg.sock"
        async with asyncio.timeout(PATIENCE):
            while not socket.exists():  # noqa: ASYNC110 - another process: there is no event to await
                await asyncio.sleep(0.1)
        await register(socket, {DRA_PLUGIN: drivers})
        key = PodKey("default", pod["metadata"]["name"], pod["metadata"]["uid"])
        await ClaimManager(root_dir, drivers, read, {}).prepare(key, pod)
    finally:
        await drivers.close()


def test_the_kubelet_starts_on_ours(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, driver_name: str
) -> None:
    """Its checksum is right; the pod has the devices that we knew of, and when it is gone the kubelet undoes what we had prepared."""
    until_gone(plane)
    home, root_dir = node_dir / "our-claims", node_dir / "ours"  # short enough for a driver's socket
    root_dir.mkdir()
    ours = Kubelets(plane, root_dir, root_dir)
    kubelets = Kubelets(plane, kubelet_node.root_dir(home), root_dir)
    with device_class(ours):
        pod = ours.using("kept", driver_name)
        with official_driver(ours, driver_name):
            asyncio.run(prepared_by_us(root_dir, plane.api, driver_name, pod))
        known = load_accounts(root_dir)
        assert len(devices(known)) == 1
        files = {STATE_FILE: (root_dir / STATE_FILE).read_bytes()}
        with kubelet_node.running(home, {}, files=files), official_driver(kubelets, driver_name):
            until_ready(plane, pods_path(name="kept"))
            assert devices(read_checkpoint((kubelets.root_dir / STATE_FILE).read_text())) == devices(known)
            kubelets.remove("kept")
            assert devices(read_checkpoint((kubelets.root_dir / STATE_FILE).read_text())) == set()


def test_the_kubelet_refuses_what_we_refuse(kubelet_node: KubeletNode, node_dir: Path, tmp_path: Path) -> None:
    """In the same words, but for what we add."""
    home, content = node_dir / "refused-claims", b'{"Data":"{}","Checksum":1}'
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(ConfigurationRefused) as refused:
        load_accounts(tmp_path)
    words = str(refused.value).partition(";")[0]
    assert words.startswith("create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint")
    with kubelet_node.running(home, {}, files={STATE_FILE: content}):
        until_told(home / "state/log/kubelet.log", words)
