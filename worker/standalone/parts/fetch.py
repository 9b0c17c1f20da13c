"""Fetches what a standalone node needs and this machine lacks, for `tempolet fetch`, `make parts` and `deploy/setup.py`.

Programs on PATH are used as they are (see `worker/standalone/machine/programs.py`); the others are Debian packages,
unpacked into a folder of our own and never installed. apt checks each against the mirror's signed list. Runs before any venv
exists, so it needs only Python 3.11. A second run finds everything and returns at once.
"""

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worker.standalone import images
from worker.standalone.images.build import WrongArchitecture, build_images
from worker.standalone.machine import programs
from worker.standalone.parts.debian import NotFetched, PrivateApt, this_release, unpack

OLDEST_PYTHON: Final = (3, 11)
CONTAINERD_SUITE: Final = "forky"  # containerd 2.1; trixie's 1.7 has no event stream for each reader
BUSYBOX_SUITE: Final = "trixie"  # 1.37, as in the image's tag; static, so it runs on any release
REGISTRY: Final = "root/usr/bin/docker-registry"
ETCD: Final = "root/usr/bin/etcd"
BASH: Final = "root/bin/bash-static"
CURL: Final = "root/usr/bin/curl"
"""Paths below the parts folder."""
FETCHED: Final = "fetched.sha256"
"""The file of the parts folder that says which packages were unpacked, as `sha256sum` does."""
NFT_WRAPPER: Final = """\
#!/bin/sh
# nft with the libraries that were unpacked beside it
here=${0%/*}/../root
LD_LIBRARY_PATH=$(echo "$here"/usr/lib/*-linux-gnu) exec "$here/usr/sbin/nft" "$@"
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One package: its programs, whether they are present already, and where it comes from."""

    package: str
    gives: Sequence[programs.Program] = ()
    suite: str = ""
    """Empty: the machine's own release."""
    present: Callable[[Path], bool] = lambda _: True
    with_dependencies: bool = False
    optional: str = ""
    """What does not work without it; empty if it is required."""

    def is_there(self, parts: Path) -> bool:
        """Report whether everything in the package is on the machine or in the parts."""
        try:
            for program in self.gives:
                programs.find_program(program, parts)
        except programs.MissingProgram:
            return False
        return self.present(parts)


def _has_cni_plugins(parts: Path) -> bool:
    try:
        programs.find_cni_plugins(parts)
    except programs.MissingProgram:
        return False
    return True


PARTS: Final = (
    Part("containerd", (programs.CONTAINERD, programs.CTR, programs.SHIM), CONTAINERD_SUITE),
    Part("runc", (programs.RUNC,)),
    Part("containernetworking-plugins", suite=CONTAINERD_SUITE, present=_has_cni_plugins),
    Part("nftables", (programs.NFT,), with_dependencies=True, optional="host ports, and pods speaking to the outside"),
    Part(
        "busybox-static",
        suite=BUSYBOX_SUITE,
        present=lambda parts: (parts / "root/usr/bin/busybox").exists(),
        optional="image of busybox unless a registry has it",
    ),
)


FOR_TESTS: Final = (
    Part(
        "docker-registry",
        present=lambda parts: (parts / REGISTRY).exists(),
        optional="test against Debian's own registry",
    ),
    Part(
        "etcd-server",
        present=lambda parts: (parts / ETCD).exists() or shutil.which("etcd") is not None,
        optional="test against a real kube-apiserver",
    ),
    Part("bash-static", present=lambda parts: (parts / BASH).exists(), optional="official Kubernetes test"),
    Part(
        "curl",
        present=lambda parts: (parts / CURL).exists() or shutil.which("curl") is not None,
        with_dependencies=True,
        optional="official Kubernetes test of networking",
    ),
)
"""Not needed by a node: fetched by `deploy.setup --dev`, as by `make test`."""


class PartsMissing(Exception):
    """Something required cannot be fetched; names each part and how to get it."""


def fetch(parts: Path, *more: Part) -> str:
    """Fetch what is missing into a folder and build the images; returns a line for the operator.

    Raises PartsMissing. Concurrent runs wait for each other.
    """
    if sys.version_info < OLDEST_PYTHON:
        found = sys.version.split(maxsplit=1)[0]
        raise PartsMissing(f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed, this is {found}")
    parts.mkdir(parents=True, exist_ok=True)
    with (parts / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor() as pool:
            wanted = (*PARTS, *more)
            there = pool.map(lambda part: part.is_there(parts), wanted)
            missing = [part for part, is_there in zip(wanted, there, strict=True) if not is_there]
        problems = _fetch_packages(missing, parts) if missing else []
        try:
            if missing or _images_are_old(parts):
                build_images(parts / "root/usr/bin/busybox", parts / "images")
        except (WrongArchitecture, OSError) as error:
            problems.append(f"images: {error}")
    if any(not problem.startswith("without ") for problem in problems):
        raise PartsMissing("\n".join(problems))
    fetched = ", ".join(part.package for part in missing)
    return "; ".join([f"fetched {fetched} into {parts}" if fetched else f"{parts} has all", *problems])


def _fetch_packages(missing: Sequence[Part], parts: Path) -> list[str]:
    """Fetch and unpack packages one after the other; returns those that could not be fetched."""
    problems = []
    work = parts / "apt"
    shutil.rmtree(work, ignore_errors=True)
    try:
        apt = PrivateApt(work, this_release())
        apt.prepare([part.suite for part in missing if part.suite])
        for part in missing:
            try:
                _fetch_one(apt, part, parts)
            except NotFetched as error:
                problems.append(_named(part, error))
    except NotFetched as error:
        problems += [_named(part, error) for part in missing]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _link(parts)
    problems += [_named(part, "it was fetched, but does not run") for part in missing if not part.is_there(parts)]
    return list(dict.fromkeys(problems))


def _fetch_one(apt: PrivateApt, part: Part, parts: Path) -> None:
    if part.with_dependencies:
        archives = apt.download_with_dependencies(part.package)
    else:
        archives = apt.download(part.package, part.suite or apt.release)
    with (parts / FETCHED).open("a") as fetched:
        for archive in archives:
            unpack(archive, parts / "root")
            fetched.write(f"{hashlib.sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n")


def _named(part: Part, why: object) -> str:
    if part.optional:
        return f"without {part.package}: no {part.optional} ({why})"
    hints = "; ".join(program.get_it for program in part.gives[:1])
    return f"{part.package} cannot be fetched ({why}){': ' + hints if hints else ''}"


def _link(parts: Path) -> None:
    """Link unpacked programs to where `programs` looks: bin/ and cni."""
    (parts / "bin").mkdir(exist_ok=True)
    for program in ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr", "usr/sbin/runc"):
        link = parts / "bin" / Path(program).name
        if (parts / "root" / program).exists() and not link.is_symlink():
            link.symlink_to(Path("../root") / program)
    if (parts / "root/usr/sbin/nft").exists():
        wrapper = parts / "bin/nft"
        wrapper.unlink(missing_ok=True)
        wrapper.write_text(NFT_WRAPPER)
        wrapper.chmod(0o755)
    if (parts / "root/usr/lib/cni").exists() and not (parts / "cni").is_symlink():
        (parts / "cni").symlink_to("root/usr/lib/cni")


def _images_are_old(parts: Path) -> bool:
    sources = Path(images.__file__).parent.glob("*.py")
    newest = max(source.stat().st_mtime for source in sources)
    archives = [parts / "images" / f"{name}.tar" for name in ("pause", "busybox")]
    return not all(archive.exists() and archive.stat().st_mtime >= newest for archive in archives)
