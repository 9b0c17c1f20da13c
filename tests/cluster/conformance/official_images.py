"""Replacements for the official tests' images, made of Debian packages and agnhost, under the official names.

Used by the quick selection of official tests and by `make conformance`: the registry of Kubernetes is not used. Some tests pull
Always, so the images are imported into containerd and pushed to a loopback registry that serves as registry.k8s.io.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.binaries import NoBinaries
from tests.node.images.debian_registry import DebianRegistry
from worker.standalone.containerd import Containerd
from worker.standalone.images.build import GROUP, PASSWD, PATH
from worker.standalone.images.oci import File, Folder, Image, Link, archive
from worker.standalone.machine.programs import default_parts_dir, search_path
from worker.standalone.parts.fetch import BASH, CURL

Tree = dict[str, File | Link | Folder]

OFFICIAL: Final = "registry.k8s.io"
_TEST_IMAGES: Final = f"{OFFICIAL}/e2e-test-images"
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "busybox": (f"{_TEST_IMAGES}/busybox:1.37.0-1", f"{_TEST_IMAGES}/ipc-utils:1.4"),
    "agnhost": (f"{_TEST_IMAGES}/agnhost:2.63.0", f"{_TEST_IMAGES}/agnhost:2.55"),
    "nginx": (f"{_TEST_IMAGES}/nginx:1.15-4", f"{_TEST_IMAGES}/nginx:1.27-0"),
    "nonroot": (f"{_TEST_IMAGES}/nonroot:1.5",),
    "nonewprivs": (f"{_TEST_IMAGES}/nonewprivs:1.4",),
    "kitten": (f"{_TEST_IMAGES}/kitten:1.8",),
    "glibc": (f"{_TEST_IMAGES}/glibc-dns-testing:2.0.0",),
}
"""The images' names in the tests of 1.36.3 (test/utils/image/manifest.go)."""
NMETER: Final = b"""\
#!/bin/bash
# The one call of busybox's nmeter that tests make: the time of day with milliseconds.
now=$EPOCHREALTIME
TZ=UTC printf '%(%H:%M:%S)T.%.3s\\n' "${now%.*}" "${now#*.}"
"""
SHELL: Final = b"""\
#!/bin/bash
# busybox's shell, whose messages tests compare; bash where a variable's name is no identifier: busybox's drops such, and tests print them.
while IFS= read -r -d '' pair; do
  [[ ${pair%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || exec -a /bin/sh /bin/bash "$@"
done < /proc/self/environ
exec -a /bin/sh /bin/busybox "$@"
"""
USERS: Final = b"user-defined-in-image:x:1000:1000::/tmp:/bin/sh\n"
GROUPS: Final = b"group-defined-in-image:x:50000:user-defined-in-image\n"


@dataclass(frozen=True, slots=True)
class OfficialImages:
    """The images as archives in a folder; built once, and again if a program has changed."""

    folder: Path
    binaries: Path
    """Folder of agnhost and nonewprivs."""

    def build(self) -> dict[str, Path]:
        """Build missing images; returns the archives by the images' short names. Raises NoBinaries."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sources = [self.binaries / "agnhost", self.binaries / "nonewprivs", Path(__file__)]
        newest = max(source.stat().st_mtime for source in sources)
        paths = {name: self.folder / f"{name}.tar" for name in NAMES}
        if not all(path.exists() and path.stat().st_mtime >= newest for path in paths.values()):
            for name, image in self._images():
                scratch = paths[name].with_suffix(".new")
                scratch.write_bytes(archive(image))
                scratch.replace(paths[name])
        return paths

    def give(self, containerd: Containerd, registry: DebianRegistry) -> None:
        """Import all of them into containerd, and serve them in place of the official registry."""
        for name, path in self.build().items():
            containerd.import_image(path)
            for reference in NAMES[name]:
                repository, _, tag = reference.removeprefix(f"{OFFICIAL}/").partition(":")
                registry.push(path, repository, tag)
        serve_as(OFFICIAL, containerd, registry)

    def _images(self) -> Iterator[tuple[str, Image]]:
        box = _box()
        yield "busybox", _image("busybox", box, Cmd=["/bin/sh"])
        agnhost = _image("agnhost", box | self._agnhost(), Entrypoint=["/agnhost"], Cmd=["pause"])
        yield "agnhost", agnhost
        web: Tree = {"www": Folder(), "www/index.html": File(b"ok\n")}
        yield "nginx", _image("nginx", box | web, Cmd=["httpd", "-f", "-p", "80", "-h", "/www"])
        yield "nonroot", _image("nonroot", box, Cmd=["id"], User="1234:1234")
        privileged = File((self.binaries / "nonewprivs").read_bytes(), 0o4755)
        yield "nonewprivs", _image("nonewprivs", box | {"nnp": privileged}, Entrypoint=["/nnp"])
        marks: Tree = {"data.json": File(b'{"image":"kitten.jpg"}\n'), "etc/os-release": File(b'NAME="Alpine Linux"\n')}
        yield "kitten", _image("kitten", box | marks, Cmd=["/bin/sh"])
        hostname = _program("hostname")
        libraries = _with_libraries(hostname) | _names_libraries()
        own = {"bin/hostname": File(hostname.read_bytes(), 0o755)}
        yield "glibc", _image("glibc", box | libraries | own, Cmd=["/bin/sh"])

    def _agnhost(self) -> Tree:
        program = File((self.binaries / "agnhost").read_bytes(), 0o755)
        tree: Tree = {"agnhost": program, "agnhost-2": Link("agnhost"), "uploads": Folder(0o1777)}
        tree |= {"var": Folder(), "var/registry": Folder(0o1777)}
        tree |= {path.name: File(path.read_bytes()) for path in self.binaries.glob("localhost.*")}
        curl = _program("curl", default_parts_dir() / CURL)
        return tree | {"bin/curl": File(curl.read_bytes(), 0o755)} | _with_libraries(curl)


def serve_as(host: str, containerd: Containerd, registry: DebianRegistry) -> None:
    """Let containerd pull from this registry what has a name of that host."""
    mirror = containerd.places.registries / host
    mirror.mkdir(parents=True, exist_ok=True)
    (mirror / "hosts.toml").write_text(
        f'server = "http://{registry.host}"\n[host."http://{registry.host}"]\n  capabilities = ["pull", "resolve"]\n'
    )


def _image(name: str, tree: Tree, **settings: object) -> Image:
    return Image(NAMES[name], tree, {"Env": [PATH], **settings})


def _box() -> Tree:
    """Return a busybox whose shell behaves in the tests as that of the official image."""
    busybox, shell = default_parts_dir() / "root/usr/bin/busybox", default_parts_dir() / BASH
    if not shell.exists():
        raise NoBinaries("no bash-static among the parts: `python3 -m deploy.setup --dev` fetches it")
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    tree: Tree = {"bin": Folder(), "bin/busybox": File(busybox.read_bytes(), 0o755)}
    tree |= {f"bin/{applet}": Link("busybox") for applet in listed if applet != "busybox"}
    tree |= {
        "bin/bash": File(shell.read_bytes(), 0o755),
        "bin/sh": File(SHELL, 0o755),
        "bin/nmeter": File(NMETER, 0o755),
    }
    tree |= {"etc": Folder(), "etc/passwd": File(PASSWD + USERS), "etc/group": File(GROUP + GROUPS)}
    return tree | {"root": Folder(), "tmp": Folder(0o1777)}


def _program(name: str, among_parts: Path | None = None) -> Path:
    found = shutil.which(name, path=search_path())
    if found is None and (among_parts is None or not among_parts.exists()):
        raise NoBinaries(f"no {name} on PATH or among the parts: `python3 -m deploy.setup --dev` fetches it")
    return Path(found) if found is not None else among_parts or Path()


def _with_libraries(program: Path) -> Tree:
    """Return a program's shared libraries, if it has any."""
    unpacked = sorted((default_parts_dir() / "root/usr/lib").glob("*-linux-gnu"))
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, unpacked))}
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, env=environment).stdout
    tree: Tree = {}
    for wanted, where in re.findall(r"^\s*(?:(\S+) => )?(/\S+) \(", listed, re.MULTILINE):
        place = where if not wanted or not where.startswith(str(default_parts_dir())) else f"/usr/lib/{wanted}"
        tree |= _file_at(place, Path(where))
    return tree


def _names_libraries() -> Tree:
    """Return the libraries that the C library loads to resolve names."""
    tree: Tree = {}
    for folder in Path("/lib").glob("*-linux-gnu"):
        for name in ("libnss_files.so.2", "libnss_dns.so.2"):
            if (folder / name).exists():
                tree |= _file_at(str(folder / name), folder / name)
    return tree


def _file_at(place: str, source: Path) -> Tree:
    """Put a file at a path, creating its folders."""
    parts = place.strip("/").split("/")
    tree: Tree = {"/".join(parts[:depth]): Folder() for depth in range(1, len(parts))}
    return tree | {"/".join(parts): File(source.read_bytes(), 0o755)}
