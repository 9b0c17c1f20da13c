"""Is the Debian package packed with its version, its configuration files and scripts, and do its units start its own program?

`tests/machine/installed/test_package.py` installs a whole one.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.debian.package import DOCUMENT, FILES, HOME, MOVED, SCRIPTS, pack, packaged_unit, place
from deploy.wheel import CHECKOUT
from worker.standalone.machine.system_user import OF_TEMPORAL

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Pack two files."""
    tree = tmp_path / "tree"
    for name in ("etc/tempolet/environment", "usr/lib/tempolet/pyvenv.cfg"):
        (tree / name).parent.mkdir(parents=True)
        (tree / name).write_text("x" * 2048)
    return pack(tree, "1.2.3-1", tmp_path / "dist")


def read(package: Path, *question: str) -> str:
    """Ask dpkg-deb."""
    return subprocess.run(
        ["dpkg-deb", question[0], package, *question[1:]], capture_output=True, text=True, check=True
    ).stdout


def test_control_has_what_apt_asks_for(package: Path) -> None:
    """No word of the template is left; Python is the one for which the environment was made."""
    assert package.name.startswith("tempolet_1.2.3-1_")
    control = read(package, "--field")
    assert "Version: 1.2.3-1\n" in control
    assert "Installed-Size: 4\n" in control
    assert "python3 (>= 3.13~), python3 (<< 3.14~)" in control
    assert "@" not in control.replace("@localhost", "")


def test_only_configuration_is_kept_over_upgrades(package: Path) -> None:
    """Each file of /etc, by its path."""
    assert read(package, "--info", "conffiles") == "/etc/tempolet/environment\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_are_sh(name: str) -> None:
    """They end at the first error, and sh can read them."""
    text = (FILES / name).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert "\nset -e\n" in text
    subprocess.run(["sh", "-n", FILES / name], check=True)


@pytest.mark.parametrize("unit", sorted((CHECKOUT / "deploy/systemd").glob("*.service")), ids=lambda unit: unit.name)
def test_units_start_the_packages_program(unit: Path) -> None:
    """With the package's variables before those of `tempolet join`."""
    text = packaged_unit(unit.read_text())
    assert "ExecStart=/usr/bin/tempolet " in text
    assert "/usr/local" not in text
    first, second = (line for line in text.splitlines() if line.startswith("EnvironmentFile="))
    assert first == "EnvironmentFile=-/etc/tempolet/environment"
    assert second == "EnvironmentFile=-/etc/tempolet/tempolet.env"


def test_what_messages_and_files_refer_to_is_there(tmp_path: Path) -> None:
    """A machine with the package has no checkout: `deploy/cluster.md` is below the package's documents."""
    for name in MOVED:
        (tmp_path / HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / HOME / name).write_text("x")
    place(tmp_path)
    texts = [one.read_text() for one in (CHECKOUT / "worker").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\b(?:deploy|docs)/[\w/-]+\.md", text)}
    assert "deploy/cluster.md" in named
    assert [one for one in sorted(named) if not (tmp_path / DOCUMENT / one).is_file()] == []
    environment = (tmp_path / "etc/tempolet/environment").read_text()
    paths = re.findall(r"/usr/share/doc/[\w/.-]+\.md", environment)
    assert paths
    assert all((tmp_path / one.lstrip("/")).is_file() for one in paths)


def test_the_user_of_temporal_is_the_one_that_up_looks_for() -> None:
    """Made at the installation, removed at the purge; its line is that of systemd-sysusers."""
    lines = [line for line in (FILES / "sysusers").read_text().splitlines() if line[0] != "#"]
    assert [line.split()[:3] for line in lines] == [["u", OF_TEMPORAL, "-"]]
    assert f"userdel {OF_TEMPORAL}" in (FILES / "postrm").read_text()


OWN_NAMESPACES = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Of processes, too: userdel keeps a user whose number any process has, perhaps that of another test's user."""
INSIDE = """
set -e
mount --bind "$1" /etc
for at in /run /var/lib /usr/lib/sysusers.d; do mount -t tmpfs tmpfs $at; done
cp "$2/sysusers" /usr/lib/sysusers.d/tempolet.conf
sh "$2/postinst" configure ""
getent passwd tempolet-temporal
sh "$2/postinst" configure 0.1.0-1
sh "$2/postrm" remove
getent passwd tempolet-temporal
sh "$2/postrm" purge
getent passwd tempolet-temporal || getent group tempolet-temporal || echo gone
sh "$2/postrm" purge
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("systemd-sysusers", "userdel", "unshare"))),
    reason="needs root, systemd-sysusers, userdel and unshare",
)
def test_the_user_is_there_from_the_installation_to_the_purge(tmp_path: Path) -> None:
    """By the scripts themselves, in mounts of their own; an upgrade and a second purge find nothing to do."""
    etc = tmp_path / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    unshare = [*OWN_NAMESPACES, "sh", "-c", INSIDE, "sh", str(etc), str(FILES)]
    done = subprocess.run(unshare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.splitlines()
    assert first == second
    assert first.startswith(f"{OF_TEMPORAL}:x:")
    assert last == "gone"
