"""Debian packages without an installation: fetched with a private apt state, unpacked into a private folder.

Only the machine's mirror and how to reach it (sources, keyring, proxy) are taken from its apt configuration; lists,
cache and status files are in the work folder, so nothing of the operator's changes, and hooks of the machine's apt
configuration do not run.
"""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OS_RELEASE: Final = Path("/etc/os-release")
APT: Final = Path("/etc/apt")
DPKG_STATUS: Final = Path("/var/lib/dpkg/status")


class NotFetched(Exception):
    """A package could not be fetched; the message says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class Source:
    """The mirror of the machine's own release."""

    uri: str
    options: str
    """The bracketed part of a one-line source: signed-by, trusted, …"""


@dataclass(frozen=True, slots=True)
class PrivateApt:
    """An apt that keeps everything below one folder."""

    folder: Path
    release: str

    def prepare(self, suites: Sequence[str]) -> None:
        """Fetch the package lists of the release and of further suites from the machine's own mirror."""
        mirror = find_mirror(self.release)
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        lines = [f"deb {mirror.options} {mirror.uri} {suite} main" for suite in dict.fromkeys([self.release, *suites])]
        if security := find_source(f"{self.release}-security"):
            lines.append(f"deb {security.options} {security.uri} {self.release}-security main")
        (self.folder / "sources.list").write_text("\n".join(lines) + "\n")
        (self.folder / "apt.conf").write_text(self._configuration())
        self._run("apt-get", "update")

    def download(self, package: str, suite: str) -> list[Path]:
        """Fetch one package of a suite, without its dependencies."""
        before = set(self._archives())
        self._run("apt-get", "download", f"{package}/{suite}" if suite != self.release else package)
        return sorted(set(self._archives()) - before)

    def download_with_dependencies(self, package: str) -> list[Path]:
        """Fetch one package of the release and its missing dependencies; installs nothing."""
        before = set(self._archives())
        self._run("apt-get", "install", "--download-only", "--yes", "--no-install-recommends", package)
        return sorted(set(self._archives()) - before)

    def _archives(self) -> Iterator[Path]:
        return (self.folder / "cache/archives").glob("*.deb")

    def _configuration(self) -> str:
        """Write apt's configuration: ours, then the machine's settings for its mirror."""
        reach = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=False).stdout
        own = {
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": self.folder,
            "Dir::State::status": DPKG_STATUS,  # read only: installed packages need not be fetched
            "Dir::Cache": self.folder / "cache",
            "APT::Default-Release": self.release,
            "APT::Sandbox::User": "",  # the folder need not be readable for another user
            "Acquire::Languages": "none",
            "Debug::NoLocking": "true",  # the lock of Dir::State::status is the operator's
        }
        return reach + "".join(f'{key} "{value}";\n' for key, value in own.items())

    def _run(self, *argv: str) -> None:
        environment = {
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
        }
        archives = self.folder / "cache/archives"  # `apt-get download` writes into the current folder
        done = subprocess.run(
            [*argv, "--quiet=2"], cwd=archives, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise NotFetched(f"`{' '.join(argv)}` failed: {said}")


def this_release() -> str:
    """Read the code name of this machine's Debian release; raises NotFetched on another system."""
    values = dict(line.split("=", 1) for line in OS_RELEASE.read_text().splitlines() if "=" in line)
    codename = values.get("VERSION_CODENAME", "").strip('"')
    if values.get("ID", "").strip('"') != "debian" or not codename:
        name = values.get("PRETTY_NAME", "this system").strip('"')
        raise NotFetched(f"packages are only fetched on Debian, this is {name}: install what is missing yourself")
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NotFetched("apt-get and dpkg-deb are needed to fetch packages: install them, or what is missing itself")
    return codename


def unpack(archive: Path, into: Path) -> None:
    """Unpack a package's files; its scripts are not run."""
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "-x", archive, into], check=True)


def find_mirror(suite: str) -> Source:
    """Find the machine's mirror of a suite; raises NotFetched."""
    if found := find_source(suite):
        return found
    raise NotFetched(f"no source of {suite} main in {APT}/sources.list or {APT}/sources.list.d: add the mirror there")


def find_source(suite: str, apt: Path = APT) -> Source | None:
    """Find the first of the machine's sources that has a suite with component main."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    for file in files:
        for line in file.read_text().splitlines() if file.is_file() else ():
            if (found := _one_line(line, suite)) is not None:
                return found
    for file in sorted((apt / "sources.list.d").glob("*.sources")):
        for paragraph in file.read_text().split("\n\n"):
            if (found := _deb822(paragraph, suite)) is not None:
                return found
    return None


def _one_line(line: str, suite: str) -> Source | None:
    """Parse `deb [options] uri suite component…`."""
    kind, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if kind != "deb":
        return None
    options = rest[: rest.index("]") + 1] if rest.startswith("[") and "]" in rest else ""
    match rest.removeprefix(options).split():
        case [uri, found, *components] if found == suite and "main" in components:
            return Source(uri, options)
    return None


def _deb822(paragraph: str, suite: str) -> Source | None:
    """Parse a paragraph with Types, URIs, Suites, Components and perhaps Signed-By (a path) or Trusted."""
    fields: dict[str, str] = {}
    for line in paragraph.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith(("#", " ", "\t")):
            fields[name.strip().lower()] = value.strip()
    wanted = ("deb" in fields.get("types", "").split(), suite in fields.get("suites", "").split())
    if not all(wanted) or "main" not in fields.get("components", "").split():
        return None
    if fields.get("enabled", "yes").lower() in {"no", "false", "0"} or not fields.get("uris"):
        return None
    given = [f"{name}={fields[name]}" for name in ("signed-by", "trusted") if fields.get(name)]
    return Source(fields["uris"].split()[0], f"[{' '.join(given)}]" if given else "")
