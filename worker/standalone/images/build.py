"""The images that every node has without a registry: the sandbox's pause and a busybox.

Called by `worker/standalone/parts/fetch.py` once the Debian package is unpacked; `tempolet up` imports the archives. busybox is
linked statically, so the image needs no other file from Debian.
"""

import platform
import subprocess
from pathlib import Path
from typing import Final

from worker.standalone.images.oci import File, Folder, Image, Link, archive
from worker.standalone.images.pause import CODE, pause_program
from worker.standalone.machine.programs import ARCHITECTURES

PAUSE: Final = ("registry.k8s.io/pause:3.10.2",)
BUSYBOX: Final = ("docker.io/library/busybox:1.37", "docker.io/library/busybox:latest")
PASSWD: Final = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUP: Final = b"root:x:0:\nnobody:x:65534:\n"
PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class WrongArchitecture(Exception):
    """There is no pause program for this machine's processor."""


def build_images(busybox: Path, into: Path) -> list[Path]:
    """Write pause.tar, and busybox.tar if the program is there; returns their paths.

    Raises WrongArchitecture where pause has no code, and CalledProcessError if busybox does not run.
    """
    architecture = ARCHITECTURES.get(platform.machine(), "")
    if architecture not in CODE:
        raise WrongArchitecture(
            f"the pause program is written for {' and '.join(ARCHITECTURES)}, this machine is {platform.machine()}: "
            "give a containerd that has its own sandbox image with --container-runtime-endpoint"
        )
    into.mkdir(parents=True, exist_ok=True)
    images = {"pause": _pause(architecture)}
    if busybox.exists():
        images["busybox"] = _busybox(busybox, architecture)
    written = []
    for name, image in images.items():
        path = into / f"{name}.tar"
        path.write_bytes(archive(image))
        written.append(path)
    return written


def _pause(architecture: str) -> Image:
    tree = {"pause": File(pause_program(architecture), 0o755)}
    return Image(PAUSE, tree, {"Entrypoint": ["/pause"], "Env": [PATH]}, architecture)


def _busybox(program: Path, architecture: str) -> Image:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    tree: dict[str, File | Link | Folder] = {"bin": Folder(), "bin/busybox": File(program.read_bytes(), 0o755)}
    tree |= {f"bin/{applet}": Link("busybox") for applet in listed if applet != "busybox"}
    tree |= {"etc": Folder(), "etc/passwd": File(PASSWD), "etc/group": File(GROUP)}
    tree |= {"home": Folder(), "root": Folder(0o700), "tmp": Folder(0o1777), "var": Folder(), "var/log": Folder()}
    return Image(BUSYBOX, tree, {"Cmd": ["sh"], "Env": [PATH]}, architecture)
