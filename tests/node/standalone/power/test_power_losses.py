"""Do a node's pods come back whenever the power is cut: while the node starts, while it runs? On the native machine, so it can be tried often.

The machine is a systemd with the state folder, /etc, its units and CNI's results on a disk that loses what was not flushed; at a cut
everything that runs is killed, and the next boot has an empty /run, another boot's id and no bridge. `tests/machine/reboots` pulls the plug of
a whole machine, which takes an hour.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.machine.reboots.losses import lose_power
from tests.machine.reboots.pods import COUNTED, FACTS, RESTARTED, SECRET, WITH_VOLUMES
from tests.node.standalone.power.lossy_disk import LossyDisk, NoDisk
from tests.node.standalone.standalone_node import manifest
from tests.node.standalone.test_under_systemd import BOOTED, CHECKOUT, Booted, node_of_units, up
from tests.waiting import wait_until
from worker.standalone.containerd import CNI_CACHE
from worker.standalone.machine import links
from worker.standalone.settings import Settings

pytestmark = [pytest.mark.node, pytest.mark.systemd, pytest.mark.stress]

CHECKED_EVERY: Final = 3
PODS: Final = 2
BACK_WITHIN: Final = 240.0
"""Seconds: a boot on a busy machine; no back-off outlives it."""
LOGS: Final = ("worker", "poller", "containerd")
TO_THE_DISK: Final = "[Service]\nStandardOutput=append:{folder}/%n\nStandardError=inherit\n"
"""The journal of such a machine is in /run, which a boot empties."""
ANOTHER_BOOT: Final = """\
find {state} -name boot-id -size +0 2> /dev/null | while read -r kept; do cat /proc/sys/kernel/random/uuid > "$kept"; done"""
"""The kernel's id of the boot stays, so what is kept of it changes."""


class Powered(Booted):
    """Such a machine, with its own disk."""

    def __init__(self, node: Settings, tmp_path: Path) -> None:
        """Install it; raises NoDisk."""
        at = node.state_dir.parent
        folder, results = at / "machine", at / "cni"
        folder.mkdir(parents=True)
        results.mkdir()
        super().__init__(folder)
        self.write("default.target", BOOTED)
        self.said = folder / "said"
        self.said.mkdir()
        self.write("tempolet-up-.service.d/said.conf", TO_THE_DISK.format(folder=self.said))
        self.log = tmp_path / "systemd.log"
        self._node = node
        self._disk = LossyDisk(tmp_path / "disk", at)
        binds = f"mkdir -p {CNI_CACHE.parent}; mount --bind {results} {CNI_CACHE.parent}"
        self.prepared = "\n".join(
            [self._disk.mounting, ANOTHER_BOOT.format(state=node.state_dir), self.prepared, binds]
        )

    def switch_on(self) -> None:
        """Begin to boot, and do not wait."""
        self.__enter__()

    def pull_plug(self) -> None:
        """Lose what was not flushed, and everything that runs."""
        self._disk.cut(self._first)
        self.__exit__()
        links.delete_link(self._node.network.bridge)
        self._disk.until_free()

    def _answers(self) -> bool:
        return self._has_begun()

    def pods(self) -> list[dict[str, Any]]:
        """Return what `tempolet pods` says; nothing if it fails."""
        try:
            found: list[dict[str, Any]] = json.loads(self.tempolet(self._node, "pods", "-o", "json"))["pods"]
        except (AssertionError, ValueError):
            return []
        return found

    def restarts(self) -> dict[str, int]:
        """Return the restart counts by the pods' names."""
        return {pod["name"]: pod["restarts"] for pod in self.pods()}

    def until_pods_run(self) -> None:
        """Wait until all pods are ready, and no others are there."""
        found: list[dict[str, Any]] = []

        def run() -> bool:
            found[:] = self.pods()
            return len(found) == PODS and all(pod["phase"] == "Running" and pod["ready"] for pod in found)

        wait_until(run, lambda: f"the pods run: {self.told()}", BACK_WITHIN)

    def until_clean(self) -> list[str]:
        """Wait until nothing of a former boot is left, and check that Temporal's database is whole; returns the node's mount points."""
        node, facts = self._node, dict[str, Any]()
        words = ("python", "-c", FACTS, str(node.run_dir), str(node.state_dir), node.network.bridge)

        def is_clean() -> bool:
            told = self.inside("env", f"--chdir={CHECKOUT}", f".venv/bin/{words[0]}", *words[1:], check=False)
            try:
                facts.update(json.loads(told))
            except ValueError:
                facts["error"] = told
                return False
            return {name: len(facts[name]) for name in COUNTED} == dict.fromkeys(COUNTED, PODS)

        wait_until(is_clean, lambda: f"what two pods have, and nothing else: {facts}\n{self.told()}", BACK_WITHIN)
        assert facts["whole"] == [["ok"]], facts
        mounts: list[str] = facts["mounts"]
        return mounts

    def last_said(self) -> str:
        """Nothing: systemd's own words are in its log."""
        return ""

    def told(self) -> str:
        """Return what explains a failure: pods, their histories, and the ends of the logs."""
        node = self._node
        names = [f"default/{pod['name']}" for pod in self.pods()]
        said = [
            self.tempolet(node, *words, check=False) for words in (["pods"], *(["history", name] for name in names))
        ]
        ctr = ("ctr", "--address", str(node.containerd.socket), "--namespace", "k8s.io")
        said += [self.inside(*ctr, what, "list", check=False) for what in ("tasks", "containers")]
        assert node.units is not None
        for one in LOGS:
            said.append(self.inside("tail", "-n", "100", str(self.said / node.units.name(one)), check=False))
        return "\n".join(said)


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node."""
    with node_of_units(slot, node_dir, "pl") as settings:
        yield settings


def test_pods_are_back_whenever_the_power_was_cut(node: Settings, tmp_path: Path) -> None:
    """Restarts are counted once for each boot that got as far as the pods, the history tells it, and nothing of a former boot is left."""
    try:
        machine = Powered(node, tmp_path)
    except NoDisk as error:
        pytest.skip(str(error))
    machine.switch_on()
    try:
        _lose_power(machine, node, tmp_path)
    finally:
        machine.pull_plug()


def _lose_power(machine: Powered, node: Settings, folder: Path) -> None:
    wait_until(lambda: "running" in machine.systemctl("is-system-running", check=False), "systemd to answer")
    word = manifest(folder, "word", SECRET)
    machine.inside("install", "-D", "-m", "600", str(word), str(node.objects / "default/secrets/word.yaml"))
    machine.tempolet(node, *up(node, manifest(folder, "web"), manifest(folder, "secret", WITH_VOLUMES)))
    machine.until_pods_run()
    assert set(machine.restarts().values()) == {0}
    lose_power(machine, CHECKED_EVERY)
    told = machine.tempolet(node, "history", "default/web-n1")
    assert RESTARTED in told, told
    found = machine.inside("sh", "-c", f"cat {machine.said}/*").count("the node knows more of a pod than Temporal")
    print(f"commits that Temporal had lost were noticed {found} times")
    machine.tempolet(node, "down", "--purge")
