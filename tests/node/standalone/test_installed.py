"""Does an installed tempolet run a node far from any checkout?

The wheel and the pinned packages are installed into a new environment, by install.sh; the parts are those of this checkout.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.wheel import build_release
from tests.node.standalone.standalone_node import standalone_node
from worker.standalone.down import what_is_left
from worker.standalone.machine.programs import TEMPORAL, default_parts_dir, find_program
from worker.standalone.settings import Settings

HAS_VENV: Final = (
    subprocess.run(["python3", "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0
)
pytestmark = pytest.mark.skipif(not HAS_VENV, reason="needs a python3 with venv, as install.sh: python3-venv")
Tempolet = Callable[..., str]
SECONDS: Final = 600.0


@pytest.fixture(scope="module")
def environment(node_dir: Path) -> Path:
    """Install a release with its own script; returns the virtual environment."""
    release, prefix = node_dir / "release", node_dir / "installed"
    build_release(release)
    command = ["sh", str(release / "install.sh"), "--prefix", str(prefix), "--without-parts"]
    quickly = {**os.environ, "PIP_NO_COMPILE": "1"}  # of the packages' thousands of modules a node imports some hundred
    done = subprocess.run(command, cwd="/", env=quickly, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (prefix / "lib/tempolet").iterdir()
    assert (prefix / "bin/tempolet").resolve() == folder / "bin/tempolet"
    again = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (again.returncode, "this release is installed" in again.stderr) == (1, True)
    return folder


@pytest.fixture(scope="module")
def parts(node_dir: Path) -> Path:
    """Make a folder of parts in which `tempolet fetch` finds everything: this checkout's, and its Temporal."""
    folder, theirs = node_dir / "parts", default_parts_dir()
    (folder / "bin").mkdir(parents=True)
    for one in (*theirs.iterdir(), *(theirs / "bin").iterdir()):
        if one != theirs / "bin":
            (folder / one.relative_to(theirs)).symlink_to(one)
    (folder / "bin/temporal").symlink_to(find_program(TEMPORAL))
    return folder


@pytest.fixture
def node(slot: int, node_dir: Path) -> Iterator[Settings]:
    """Return the settings of a node that is not up yet."""
    with standalone_node(slot, node_dir, "whl") as settings:
        yield settings


@pytest.fixture
def tempolet(environment: Path, parts: Path, node: Settings) -> Tempolet:
    """Return a function that runs the installed command for this node, in a folder without modules."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    variables |= {"TEMPOLET_STATE_DIR": str(node.state_dir), "TEMPOLET_RUN_DIR": str(node.run_dir)}
    variables |= {"TEMPOLET_PARTS_DIR": str(parts), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(*words: str) -> str:
        command = [str(environment / "bin/tempolet"), *words]
        done = subprocess.run(
            command, cwd="/", env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_an_installed_tempolet_runs_a_pod_and_leaves_nothing(
    tempolet: Tempolet, environment: Path, node: Settings
) -> None:
    """Fetch finds all that is there, `up` runs the example that came with it, `down` removes everything."""
    told = tempolet("fetch")
    assert "has all" in told
    assert "temporal is there" in told
    ports = ["--temporal-ui-port", str(node.ports.ui), "--healthz-port", "0"]
    network = ["--bridge", node.network.bridge, "--pod-cidr", node.network.subnet, "--cgroup-root", node.cgroup]
    tempolet("up", "--hello", "--hostname-override", "n1", *ports, *network)
    assert "Running" in tempolet("pods")
    assert _program_of(node.worker.running()) == str(environment / "bin/python")
    tempolet("down", "--purge")
    assert what_is_left(node) == []
    assert not node.state_dir.exists()


def _program_of(process: object) -> str:
    pid = getattr(process, "pid", 0)
    return Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]
