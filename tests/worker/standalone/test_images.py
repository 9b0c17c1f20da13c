"""Can a container runtime import the images built here, and does pause behave as PID 1 must?"""

import io
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

import pytest

from tests.waiting import wait_until
from worker.standalone.images.build import WrongArchitecture, build_images
from worker.standalone.images.oci import File, Folder, Image, Link, archive
from worker.standalone.images.pause import CODE_OFFSET, pause_program
from worker.standalone.machine.process import wait_for_end

RT_SIGTIMEDWAIT: Final = "128 "  # where pause waits
TREE: Final[dict[str, File | Link | Folder]] = {
    "bin": Folder(),
    "bin/tool": File(b"#!", 0o755),
    "bin/alias": Link("tool"),
    "tmp": Folder(0o1777),
}


def unpacked(image: Image) -> dict[str, bytes]:
    """Read the archive's files."""
    with tarfile.open(fileobj=io.BytesIO(archive(image))) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member))}


def blob(files: dict[str, bytes], descriptor: dict[str, object]) -> bytes:
    """Follow a descriptor, and check its digest and size on the way."""
    digest = str(descriptor["digest"]).removeprefix("sha256:")
    content = files[f"blobs/sha256/{digest}"]
    assert sha256(content).hexdigest() == digest
    assert descriptor["size"] == len(content)
    return content


def test_an_archive_follows_the_image_specification() -> None:
    """Layout, index, manifest, config and layer point to each other by digest; each name has its index entry."""
    files = unpacked(Image(["a.io/x:1", "a.io/x:2"], TREE, {"Cmd": ["tool"]}))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    entries = json.loads(files["index.json"])["manifests"]
    assert [entry["annotations"]["io.containerd.image.name"] for entry in entries] == ["a.io/x:1", "a.io/x:2"]
    manifest = json.loads(blob(files, entries[0]))
    config = json.loads(blob(files, manifest["config"]))
    layer = blob(files, manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{sha256(layer).hexdigest()}"]
    assert config["config"] == {"Cmd": ["tool"]}
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        members = {member.name: (member.mode, member.type, member.linkname) for member in tar}
    assert members == {
        "bin": (0o755, tarfile.DIRTYPE, ""),
        "bin/tool": (0o755, tarfile.REGTYPE, ""),
        "bin/alias": (0o777, tarfile.SYMTYPE, "tool"),
        "tmp": (0o1777, tarfile.DIRTYPE, ""),
    }


def test_the_same_files_give_the_same_image() -> None:
    """No clock or owner enters, so a rebuilt image is not a new one."""
    assert archive(Image(["x"], TREE)) == archive(Image(["x"], TREE))
    assert archive(Image(["x"], TREE)) != archive(Image(["x"], TREE | {"new": File(b"")}))


def test_another_processor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause program is machine code."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(WrongArchitecture, match="riscv64"):
        build_images(Path("/bin/true"), tmp_path)


def test_pause_is_made_without_busybox(tmp_path: Path) -> None:
    """On a machine where no package can be fetched: its registry has the other image."""
    assert build_images(tmp_path / "nowhere", tmp_path) == [tmp_path / "pause.tar"]


@pytest.fixture
def pause(tmp_path: Path) -> Iterator[int]:
    """Run pause as PID 1 of a PID namespace; gives its pid out here."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root and unshare: pause is tried as PID 1 of a namespace")
    program = tmp_path / "pause"
    program.write_bytes(pause_program())
    program.chmod(0o755)
    with subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", program]) as outer:
        while not (inner := Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()):
            assert outer.poll() is None
        pid = int(inner[0])
        while not Path(f"/proc/{pid}/syscall").read_text().startswith(RT_SIGTIMEDWAIT):
            assert outer.poll() is None
        yield pid
        outer.kill()


def _word(pid: int, key: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{key}:"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_pause_goes_at_once(pause: int, number: signal.Signals) -> None:
    """SIGTERM and SIGINT end it although it is PID 1, where the default action of both is to do nothing."""
    os.kill(pause, number)
    assert wait_for_end(pause, 20)


def test_pause_stays_on_other_signals_and_reaps(pause: int) -> None:
    """An orphan that ends in its namespace does not stay a zombie."""
    os.kill(pause, signal.SIGUSR1)
    orphan = "sh -c 'sleep 0.05' & exit 0"
    subprocess.run(["nsenter", "--target", str(pause), "--pid", "sh", "-c", orphan], check=True)
    children = Path(f"/proc/{pause}/task/{pause}/children")
    wait_until(lambda: children.read_text() == "", "no zombie is left")
    assert _word(pause, "State") == "S"


def test_pause_is_small_and_static() -> None:
    """Two headers and some code: an ELF file without an interpreter."""
    program = pause_program()
    assert program[:4] == b"\x7fELF"
    assert len(program) < 512
    assert len(program) > CODE_OFFSET
    assert b"ld-linux" not in program


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_pause_is_of_its_architecture(architecture: str, machine: int) -> None:
    """ELF's header names it, and the signal mask ends the file."""
    program = pause_program(architecture)
    assert int.from_bytes(program[18:20], "little") == machine
    assert int.from_bytes(program[-8:], "little") == 1 << 1 | 1 << 14 | 1 << 16


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_pause_of_another_processor_runs_emulated(tmp_path: Path, number: signal.Signals) -> None:
    """QEMU's user emulation passes signals on: pause stays on SIGCHLD, and ends with 0 on the others."""
    if not (emulator := shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")):
        pytest.skip("needs qemu-aarch64 (Debian's qemu-user)")
    program = tmp_path / "pause"
    program.write_bytes(pause_program("arm64"))
    program.chmod(0o755)
    with subprocess.Popen([emulator, "-strace", program], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        _until_it_waits(process.stderr)
        process.send_signal(signal.SIGCHLD)
        _until_it_waits(process.stderr)
        process.send_signal(number)
        assert process.wait(20) == 0


def _until_it_waits(trace: IO[str]) -> None:
    seen = ""
    while "rt_sigtimedwait" not in seen:
        seen += trace.read(1)
        assert len(seen) < 1 << 16, seen
