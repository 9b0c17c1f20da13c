"""What a booted machine needs for the official node tests, as one archive: this checkout with its tests, and built programs.

The guest's image has the product's packages, and the runner imports no others. The product's code is compiled here: each start of a
node would compile it again, and take twice the time.
"""

import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.cluster.binaries import KUBELET, OFFICIAL_TESTS, find_binaries
from tests.cluster.conformance.official_images import OfficialImages
from tests.cluster.node_tests.node_tests_run import OUT
from tests.cluster.node_tests.program import find_node_tests
from tests.machine.images.checkout import compile_for_guest
from tests.node.hardware.sample_plugin import find_plugin
from worker.standalone.machine.programs import default_parts_dir

HOME: Final = "opt/node-tests"
"""Of the checkout in the guest."""
VENV: Final = "/opt/tempolet-venv"


def write_archive(checkout: Path, file: Path, python: Sequence[str]) -> None:
    """Write the archive, to be unpacked at /; builds what is missing. `python` is the guest's. Raises NoBinaries."""
    programs, others = find_binaries((*KUBELET, *OFFICIAL_TESTS)), (find_node_tests(), find_plugin())
    images = OfficialImages(OUT / "images", programs).build()
    copy = file.with_suffix(".copy")
    for name in _files(checkout):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(checkout / name, copy / name, follow_symlinks=False)
    compile_for_guest(copy, python, f"/{HOME}")
    with tarfile.open(file, "w") as archive:
        archive.add(copy, HOME)
        archive.add(default_parts_dir(), f"{HOME}/.build/parts")
        archive.addfile(_link(f"{HOME}/.venv", VENV))
        for image in images.values():
            archive.add(image, f"{HOME}/{image.relative_to(checkout)}")
        for program in (*(programs / name for name in (*KUBELET, *OFFICIAL_TESTS)), *others):
            archive.add(program, str(program.relative_to("/")))


def _files(checkout: Path) -> Iterator[str]:
    """List the files of the checkout as they are now, but those that git ignores and recorded histories."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=checkout,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and not name.startswith("tests/replay/") and (checkout / name).exists():
            yield name


def _link(name: str, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link
