"""Builds tempolet's package for Debian 13: `python -m deploy.debian.package FOLDER`, or `make deb`.

The package has a virtual environment of its own below /usr/lib/tempolet with the pinned packages, Temporal and the first images, made in a
root of Debian 13, so that its paths and its compiled modules are those of the machine it is for. An installation fetches nothing.
dpkg-deb packs it: there is nothing here that debhelper would do better.
"""

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from deploy.debian import root as debian_root
from deploy.debian.root import CannotBuild
from deploy.debian.wheels import download_wheels
from deploy.manual import BASH, FISH, PAGE, ZSH
from deploy.wheel import CHECKOUT, build_wheel
from worker.standalone.images.build import build_images
from worker.standalone.machine.programs import ARCHITECTURES

REQUIREMENTS: Final = ("requirements.txt", "requirements-temporal.txt")
PACKAGES: Final = ("python3", "python3-venv", "busybox-static")
FILES: Final = Path(__file__).parent / "files"
HOME: Final = "usr/lib/tempolet"
SCRIPTS: Final = ("postinst", "prerm", "postrm")
MOVED: Final = {
    PAGE: "usr/share/man/man8/tempolet.8",
    BASH: "usr/share/bash-completion/completions/tempolet",
    ZSH: "usr/share/zsh/vendor-completions/_tempolet",
    FISH: "usr/share/fish/vendor_completions.d/tempolet.fish",
}
"""What a wheel has below its prefix, and where Debian's programs look for it."""
DOCUMENT: Final = "usr/share/doc/tempolet"
DOCUMENTS: Final = (
    *("README.md", "SECURITY.md", "docs", "examples"),
    *("deploy/README.md", "deploy/cluster.md", "deploy/systemd/README.md", "deploy/provisioning"),
)
"""What messages and configuration files refer to, by the paths of a checkout."""
INSTALL: Final = f"""\
set -e
python3 -m venv /{HOME}
pip="/{HOME}/bin/python3 -m pip --quiet --disable-pip-version-check"
for file in /root/wheels/requirements*.txt; do
  $pip install --no-index --find-links /root/wheels --no-deps --require-hashes --requirement "$file"
done
$pip install --no-index --no-deps /root/wheels/tempolet-*.whl
$pip uninstall --yes pip
"""


def main() -> int:
    """Build the package and print its path."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("folder", type=Path, help="where to put it")
    into: Path = arguments.parse_args().folder
    try:
        with tempfile.TemporaryDirectory() as folder:
            tree = build_tree(Path(folder))
            print(pack(tree, f"{version('tempolet')}-1", into))
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build_tree(work: Path) -> Path:
    """Make the package's files in a work folder; returns their root. Raises CannotBuild."""
    if os.geteuid() != 0:
        raise CannotBuild("the package is built as root: its files are made in a root of Debian 13")
    if platform.machine() not in ARCHITECTURES:
        raise CannotBuild(f"the package is for {' and '.join(ARCHITECTURES)}, this machine is {platform.machine()}")
    root, tree = work / "root", work / "tree"
    debian_root.bootstrap(root, PACKAGES, "apt")
    wheels = root / "root/wheels"
    download_wheels(REQUIREMENTS, wheels)
    build_wheel(wheels)
    for name in REQUIREMENTS:
        shutil.copy(CHECKOUT / name, wheels)
    debian_root.in_root(root, ["/bin/sh", "-c", INSTALL], {})
    (tree / HOME).parent.mkdir(parents=True)
    shutil.move(root / HOME, tree / HOME)
    build_images(root / "usr/bin/busybox", tree / HOME / "parts/images")
    shutil.rmtree(root)
    place(tree)
    return tree


def pack(tree: Path, release: str, into: Path) -> Path:
    """Pack the files as a release; returns the package."""
    control = tree / "DEBIAN"
    shutil.rmtree(control, ignore_errors=True)
    control.mkdir()
    architecture = ARCHITECTURES[platform.machine()]
    size = sum(one.lstat().st_size for one in tree.rglob("*") if one.is_file()) // 1024
    words = {"@VERSION@": release, "@ARCHITECTURE@": architecture, "@SIZE@": str(size)}
    text = (FILES / "control").read_text()
    for word, value in words.items():
        text = text.replace(word, value)
    (control / "control").write_text(text)
    conffiles = sorted(f"/{one.relative_to(tree)}\n" for one in (tree / "etc").rglob("*") if one.is_file())
    (control / "conffiles").write_text("".join(conffiles))
    for name in SCRIPTS:
        shutil.copy(FILES / name, control)
        (control / name).chmod(0o755)
    into.mkdir(parents=True, exist_ok=True)
    package = into / f"tempolet_{release}_{architecture}.deb"
    # zstd: a machine unpacks it several times faster than xz
    options = ["--root-owner-group", "-Zzstd", "--build"]
    subprocess.run(["dpkg-deb", *options, tree, package], check=True, stdout=subprocess.DEVNULL)
    return package


def place(tree: Path) -> None:
    """Put what is not the environment's own where Debian has it, with the documents."""
    for name, target in MOVED.items():
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(tree / HOME / name, tree / target)
    shutil.rmtree(tree / HOME / "share", ignore_errors=True)
    page = tree / MOVED[PAGE]
    page.with_suffix(".8.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    page.unlink()
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/tempolet").symlink_to("../lib/tempolet/bin/tempolet")
    units = tree / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for unit in (CHECKOUT / "deploy/systemd").glob("*.service"):
        (units / unit.name).write_text(packaged_unit(unit.read_text()))
    users = tree / "usr/lib/sysusers.d"
    users.mkdir(parents=True)
    shutil.copy(FILES / "sysusers", users / "tempolet.conf")
    document = tree / DOCUMENT
    document.mkdir(parents=True)
    shutil.copy(FILES / "copyright", document)
    for name in DOCUMENTS:
        (document / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
        copy(CHECKOUT / name, document / name)
    (tree / "etc/tempolet").mkdir(parents=True, mode=0o700)
    shutil.copy(FILES / "environment", tree / "etc/tempolet/environment")
    (tree / "etc/tempolet/environment").chmod(0o600)


def packaged_unit(text: str) -> str:
    """Return a unit that starts the package's program, with the package's own variables first."""
    own = "EnvironmentFile=-/etc/tempolet/tempolet.env"
    assert own in text
    changed = text.replace(own, f"EnvironmentFile=-/etc/tempolet/environment\n{own}")
    return changed.replace("ExecStart=/usr/local/bin/tempolet ", "ExecStart=/usr/bin/tempolet ")


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
