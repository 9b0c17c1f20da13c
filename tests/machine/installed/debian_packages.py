"""A repository of Debian 13's own packages for a machine without a network: those that are named, and what they depend on."""

import hashlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from deploy.debian.root import SUITE, NotHere
from worker.standalone.parts.debian import NotFetched, PrivateApt, this_release

INDEX: Final = "Packages"


def make_repository(folder: Path, packages: Sequence[str]) -> None:
    """Fetch them from this machine's mirror into a folder that apt takes as `deb [trusted=yes] file:FOLDER ./`; raises NotHere."""
    try:
        apt = PrivateApt(folder.with_name("apt"), this_release())
        apt.prepare([SUITE])
    except NotFetched as error:
        raise NotHere(str(error)) from error
    nothing_installed = apt.folder / "status"
    nothing_installed.touch()
    command = ["apt-get", "install", "--quiet=2", "--yes", "--download-only", "--no-install-recommends"]
    command += [f"--target-release={SUITE}", f"--option=Dir::State::status={nothing_installed}", *packages]
    environment = {"APT_CONFIG": str(apt.folder / "apt.conf"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"Debian's packages cannot be fetched: {done.stderr.strip()}")
    (apt.folder / "cache/archives").rename(folder)
    (folder / INDEX).write_text("\n".join(_paragraphs(folder)))


def _paragraphs(folder: Path) -> Iterator[str]:
    for archive in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "--field", archive], capture_output=True, text=True, check=True).stdout
        content = archive.read_bytes()
        place = {"Filename": f"./{archive.name}", "Size": len(content), "SHA256": hashlib.sha256(content).hexdigest()}
        yield control + "".join(f"{name}: {value}\n" for name, value in place.items())
