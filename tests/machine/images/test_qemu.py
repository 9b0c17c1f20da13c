"""Is QEMU chosen by its version, not by its place on PATH, and KVM used only where the guest's kernel starts under it in time?"""

import os
import time
from pathlib import Path
from typing import Final

import pytest

from deploy.debian import root as debian_root
from tests.machine import emulator
from tests.machine.emulator import accelerator
from tests.machine.images import qemu
from tests.machine.images.guest import Guest
from tests.machine.images.qemu import Qemu, find_qemu
from tests.patience import PATIENCE

STARTED: Final = "[    1.500000] Run /init as init process"
REFUSED: Final = "KVM: entry failed, hardware error 0x0"


def program(path: Path, script: str) -> Path:
    """Write a program of sh."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("system", "image", "own"),
    [
        pytest.param("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", True, True, id="ten"),
        pytest.param("QEMU emulator version 11.1.0", True, True, id="newer"),
        pytest.param("QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7)", True, False, id="seven-crashes-the-guest"),
        pytest.param("QEMU emulator version 9.2.4", True, False, id="nine-is-less-than-ten"),
        pytest.param("QEMU emulator version 10.0.2", False, False, id="without-qemu-img"),
        pytest.param("", True, False, id="none"),
    ],
)
def test_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, image: bool, own: bool) -> None:
    """The machine's own from 10 on; else one that is unpacked into the cache, once."""
    here, made = tmp_path / "bin", []
    here.mkdir()
    if system:
        program(here / "qemu-system-x86_64", f"echo '{system}'")
    if image:
        program(here / "qemu-img", "exit 0")

    def bootstrap(folder: Path, packages: tuple[str, ...], _variant: str) -> None:
        folder.mkdir()
        made.append(packages)

    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(debian_root, "bootstrap", bootstrap)
    for _ in range(2):
        found = find_qemu()
        assert found.image[-1].startswith(str(here if own else tmp_path / "cache"))
    assert made == ([] if own else [qemu.PACKAGES])


@pytest.mark.parametrize(
    ("device", "script", "expected", "at_once"),
    [
        pytest.param(True, f"echo '{STARTED}'; exec sleep 600", "kvm", True, id="the-kernel-starts"),
        pytest.param(True, f"echo '{REFUSED}'; exec sleep 600", "tcg", True, id="kvm-refuses"),
        pytest.param(True, "exit 1", "tcg", True, id="qemu-ends"),
        pytest.param(True, "exec sleep 600", "tcg", False, id="nothing-is-said-in-time"),
        pytest.param(False, f"echo '{STARTED}'; exec sleep 600", "tcg", True, id="no-device"),
    ],
)
def test_accelerator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: bool, script: str, expected: str, at_once: bool
) -> None:
    """A probe boot decides, and its QEMU has ended then."""
    seconds = PATIENCE if at_once else 0.5
    monkeypatch.setattr(emulator, "PROBE_SECONDS", seconds)
    monkeypatch.setattr(os, "access", lambda path, _: path == "/dev/kvm" and device)
    pid = tmp_path / "pid"
    probed = program(tmp_path / "qemu", f"echo $$ > {pid}\n{script}")
    began = time.monotonic()
    assert accelerator(Qemu((str(probed),), ("false",)), Guest(tmp_path)) == expected
    assert (time.monotonic() - began < seconds) == at_once
    assert pid.exists() == device
    assert not device or not Path(f"/proc/{pid.read_text().strip()}").exists()
