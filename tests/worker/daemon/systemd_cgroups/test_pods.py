"""With a real systemd and a containerd that uses its cgroups: does a pod live in its slice, within its limits?"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import worker
from tests.worker.daemon.systemd_machine import Machine, skip_unless_possible
from worker.standalone.containerd_config import ContainerdOptions, ContainerdPlaces, containerd_config
from worker.standalone.machine import programs

pytestmark = pytest.mark.systemd

CHECKOUT = Path(worker.__file__).resolve().parents[1]
TIERS = ["kubepods-besteffort.slice", "kubepods-burstable.slice", "kubepods.slice"]
MIB = 1024 * 1024
V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
SHARES = 2 if V2 else 51
UNIT = """\
[Service]
Type=notify
Environment=PATH={path}
ExecStart={containerd} --config {config}
Delegate=yes
KillMode=process
StandardOutput=append:{log}
StandardError=append:{log}
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return what a process beside systemd and containerd saw of a pod's life."""
    skip_unless_possible()
    parts = programs.default_parts_dir()
    try:
        found = {
            name: programs.find_program(name, parts) for name in (programs.CONTAINERD, programs.RUNC, programs.CTR)
        }
    except programs.MissingProgram as missing:
        pytest.skip(f"needs containerd: {missing}")
    folder = tmp_path_factory.mktemp("s")
    places = ContainerdPlaces(folder / "root", folder / "run")
    for made in (places.root, places.run, places.cni_config):
        made.mkdir(exist_ok=True)
    options = ContainerdOptions(found[programs.RUNC], parts / "cni", restrict_oom_score=True)
    text = containerd_config(places, options).replace("SystemdCgroup = false", "SystemdCgroup = true")
    places.config.write_text(text)
    with Machine(folder) as machine:
        path = f"{parts / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin"
        log = folder / "containerd.log"
        machine.write(
            "containerd.service",
            UNIT.format(path=path, containerd=found[programs.CONTAINERD], config=places.config, log=log),
        )
        machine.systemctl("daemon-reload")
        machine.systemctl("start", "containerd")
        ctr = (str(found[programs.CTR]), "--address", str(places.socket), "--namespace", "k8s.io", "images")
        for archive in sorted((parts / "images").glob("*.tar")):
            machine.inside(*ctr, "import", "--digests", str(archive))
        module = ("-m", "tests.worker.daemon.systemd_cgroups.pods_inside", f"unix://{places.socket}", str(folder))
        try:
            told = machine.inside("env", f"PYTHONPATH={CHECKOUT}", sys.executable, *module)
            yield json.loads(told.splitlines()[-1])  # after the log
        finally:
            machine.systemctl("stop", "containerd", check=False)


def test_driver(seen: dict[str, Any]) -> None:
    """The runtime says it; the key has its default, cgroupfs."""
    assert seen["driver"] == "systemd"


def test_units(seen: dict[str, Any]) -> None:
    """The pod is a slice, and sandbox and container are scopes."""
    assert seen["units"] == sorted([*TIERS, seen["slice"], *seen["scopes"]])


@pytest.mark.parametrize(
    ("whose", "quota", "memory"),
    [
        pytest.param("pod", 21000, 64, id="pod"),
        pytest.param("container", 21000, 64, id="container"),
        pytest.param("pod reloaded", 21000, 64, id="pod-after-a-daemon-reload"),
        pytest.param("container reloaded", 21000, 64, id="container-after-a-daemon-reload"),
        pytest.param("pod resized", 30000, 96, id="pod-resized-and-a-daemon-reload"),
        pytest.param("container resized", 30000, 96, id="container-resized-and-a-daemon-reload"),
    ],
)
def test_limits(seen: dict[str, Any], whose: str, quota: int, memory: int) -> None:
    """The kernel's limits of pod and container."""
    assert seen[whose][1:] == [quota, memory * MIB]
    if whose.startswith("pod"):
        assert seen[whose][0] == SHARES


def test_inside(seen: dict[str, Any]) -> None:
    """A command in the container runs, and statistics have the container by its scope."""
    assert seen["exec"] == "here\n"
    assert seen["summary"] == [["web", True]]
    assert seen["cadvisor"]


def test_too_much_memory(seen: dict[str, Any]) -> None:
    """The container's limit holds."""
    assert seen["hog"] == ["OOMKilled", 137]


def test_removal(seen: dict[str, Any]) -> None:
    """Slice and scopes are gone, and the tiers at last."""
    assert seen["left"] == TIERS
    assert seen["at last"] == []
