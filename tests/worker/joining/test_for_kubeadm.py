"""Does `tempolet join --for-kubeadm` install the services in the kubelet's place, once, and does leave remove them with what kubeadm wrote?"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.files import mounts
from tests.cluster.joining.played_systemctl import systemctl_for
from tests.worker.poller.runtime.fake_runtime import FakeRuntime
from worker.joining.join import Joining
from worker.joining.leave import Leaving
from worker.joining.places import Places
from worker.joining.record import Record
from worker.joining.refusal import JoinRefused
from worker.joining.request import JoinRequest, Temporal
from worker.joining.systemd import UNITS
from worker.machine.fitness import MachineUnfit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as join does")


@dataclass(frozen=True)
class Machine:
    """A machine below a root folder."""

    folder: Path
    request: JoinRequest

    @property
    def places(self) -> Places:
        """Where its files are."""
        return Places.below(self.folder / "root", str(self.folder / "state" / "systemctl"))

    async def join(self, *, dry_run: bool = False, **other: Any) -> list[str]:
        """Prepare it; returns what was said."""
        said: list[str] = []
        request = replace(self.request, **other)
        joining = Joining(request, self.places, said.append, timedelta(seconds=1), dry_run=dry_run)
        await asyncio.to_thread(joining.run)
        return said

    async def leave(self) -> list[str]:
        """Leave; returns what was said."""
        said: list[str] = []
        assert await asyncio.to_thread(Leaving(self.places, said.append, lambda: True, purge=True).run)
        return said

    def calls(self) -> list[str]:
        """Return the calls of systemctl that change something, and forget them."""
        file = self.folder / "state" / "calls"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def files(self) -> set[str]:
        """List its files and folders."""
        root = self.folder / "root"
        return {str(one.relative_to(root)) for one in root.rglob("*")}


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """Return a machine with systemd and a runtime, and without a kubelet."""
    runtime = FakeRuntime(tmp_path / "cri.sock")
    await runtime.start()
    request = JoinRequest(
        server="",
        hashes=frozenset(),
        temporal=Temporal("temporal.example:7233"),
        hostname_override="n",
        endpoint=runtime.endpoint,
        for_kubeadm=True,
    )
    made = Machine(tmp_path, request)
    made.places.systemd.mkdir(parents=True)
    made.places.units.mkdir(parents=True)
    systemctl_for(tmp_path / "root", tmp_path / "state")
    yield made
    await runtime.stop()


async def test_kubeadm_finds_the_services_in_the_kubelets_place(machine: Machine) -> None:
    """Enabled and not started, for there is no configuration yet; a second time nothing is written."""
    places, before = machine.places, machine.files()
    assert (await machine.join(dry_run=True))[-1] == "dry run: nothing was changed"
    assert (machine.files(), machine.calls()) == (before, [])
    said = await machine.join()
    assert "--ignore-preflight-errors=KubeletVersion,SystemVerification" in said[-1]
    assert places.kubelet_unit.readlink() == Path("tempolet-node.service")
    assert machine.calls() == ["daemon-reload ", f"enable {' '.join(UNITS)}"]
    assert not list((machine.folder / "state").glob("*.pid"))
    flags = f"--container-runtime-endpoint {machine.request.endpoint} --hostname-override n"
    told = places.environment.read_text()
    assert f'{flags}"' in told
    assert "config" not in told
    assert not any(line.startswith("wrote") for line in await machine.join())


async def test_what_no_pod_can_have_is_told(machine: Machine) -> None:
    """This runtime has no handler with user namespaces, as with an old runc: other pods run, so it is no reason to end."""
    said = await machine.join(dry_run=True)
    assert [one for one in said if one.startswith("note: no pod can have hostUsers: false here: ")] != []
    assert said[-1] == "dry run: nothing was changed"


async def test_leave_removes_them_with_what_kubeadm_wrote(machine: Machine) -> None:
    """And keeps what was in the kubelet's folder before."""
    places = machine.places
    (places.root_dir / "mine").mkdir(parents=True)
    before = machine.files()
    await machine.join()
    for one in (places.kubeconfig, places.authority, places.kubeadms_configuration, places.root_dir / "flags.env"):
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text("{}\n")
    (places.kubernetes / "manifests").mkdir()
    assert "node n of the cluster that kubeadm joined" in (await machine.leave())[0]
    assert machine.files() == before


async def test_a_full_disk_is_refused(machine: Machine) -> None:
    """As by a join of its own: in one sentence, before anything is changed."""
    place = machine.places.root_dir.parent
    place.mkdir(parents=True, exist_ok=True)
    mounts.mount("tmpfs", place, "tmpfs", options=["size=1m"])
    try:
        before = machine.files()
        with pytest.raises(MachineUnfit, match=f"nothing was changed: the disk of {place} is full"):
            await machine.join()
        assert (machine.files(), machine.calls()) == (before, [])
    finally:
        mounts.unmount(place)


async def test_what_kubeadm_would_start_instead_is_refused(machine: Machine) -> None:
    """A kubelet's own unit; nothing is changed."""
    machine.places.kubelet_unit.write_text("[Service]\nExecStart=/usr/bin/kubelet\n")
    before = machine.files()
    with pytest.raises(JoinRefused, match=r"kubelet\.service is another's unit"):
        await machine.join()
    assert (machine.files(), machine.calls()) == (before, [])


async def test_a_machine_joins_in_one_way(machine: Machine) -> None:
    """By kubeadm or by join itself: each has files of its own, and flags that name them."""
    await machine.join()
    with pytest.raises(JoinRefused, match="is prepared for `kubeadm join`"):
        await machine.join(for_kubeadm=False, server="https://h:1")
    record = Record.read(machine.places.record)
    record.server = "https://h:1"
    record.write()
    with pytest.raises(JoinRefused, match="joined to https://h:1 by join itself"):
        await machine.join()
