"""A booted machine of a test: its own disks over the kept image, a shell, a power button, and a plug to pull.

Made by the fixtures of `conftest`. What it costs is QEMU's emulation, so a command may take ten times as long as on this machine.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.machine import qmp
from tests.machine.emulator import Console, accelerator, start_qemu
from tests.machine.hardware import Hardware, Places, arguments
from tests.machine.images import checkout, disks
from tests.machine.images.guest import CHECKOUT, Guest, find_guest
from tests.machine.images.qemu import Qemu, find_qemu
from tests.machine.run_folders import run_folder
from tests.machine.shell import Ran, Shell, ShellFailed

PATIENCE: Final = float(os.environ.get("MACHINE_PATIENCE", "600"))
"""Seconds for what only has to happen: emulation is ten times slower. A machine that is busy with other things needs more."""
TAIL: Final = 4000
CHECKOUT_MIB: Final = 128


class MachineFailed(Exception):
    """The machine does not do what it has to; has the end of its console."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What machines are made of: shared by a session, only read."""

    qemu: Qemu
    guest: Guest
    checkout: Path
    """The disk of the checkout."""


@dataclass
class Machine:
    """One machine; off until `boot`."""

    parts: Parts
    folder: Path
    hardware: Hardware = field(default_factory=Hardware)
    console: Console = field(init=False)
    _qemu: "subprocess.Popen[bytes] | None" = None
    _shell: Shell | None = None

    def __post_init__(self) -> None:
        self.console = Console(self.said)

    @property
    def said(self) -> Path:
        """The file of what the console said, over all boots."""
        return self.folder / "console"

    def boot(self, seconds: float = PATIENCE) -> None:
        """Switch on, and wait until systemd has started everything; raises MachineFailed."""
        self.switch_on()
        self.until_running(seconds)

    def switch_on(self) -> None:
        """Switch on, and do not wait."""
        assert not self.is_on(), "it is on"
        self._make_disks()
        self._start()

    def until_running(self, seconds: float = PATIENCE) -> None:
        """Wait until systemd has started everything; raises MachineFailed."""
        self._until_running("", seconds)

    def run(self, command: str | list[str], seconds: float = PATIENCE, *, check: bool = True) -> Ran:
        """Run a command line with sh, or a program with arguments, as root with tempolet on its PATH.

        Raises CommandFailed unless it ends with 0; with check=False only MachineFailed, if there is no answer.
        """
        with self._explained():
            ran = self._connected().run(command, seconds)
        return ran.checked() if check else ran

    def put(self, content: bytes | Path, path: str, mode: int = 0o644) -> None:
        """Write a file of the guest, and its folder."""
        with self._explained():
            self._connected().put(content.read_bytes() if isinstance(content, Path) else content, path, mode)

    def get(self, path: str) -> bytes:
        """Read a file of the guest, of up to 64 MiB."""
        with self._explained():
            return self._connected().get(path)

    def reboot(self, seconds: float = PATIENCE) -> None:
        """Reboot in order, by systemd, and wait until everything is started again."""
        before = self.boot_id()
        self._connected().tell("systemctl reboot")
        self._until_running(before, seconds)

    def reset(self, seconds: float = PATIENCE) -> None:
        """Press the reset button: nothing is stopped or written, and the machine boots again."""
        before = self.boot_id()
        self.control("system_reset")
        self._until_running(before, seconds)

    def power_off(self, seconds: float = PATIENCE) -> None:
        """Press the power button, and wait until the machine is off."""
        self.control("system_powerdown")
        self._until_off(seconds)

    def pull_plug(self) -> None:
        """Cut the power: what no program has flushed to a disk is lost. `boot` switches on again."""
        if self._qemu is not None:
            self._qemu.kill()
            self._until_off(PATIENCE)

    def control(self, command: str, **given: object) -> object:
        """Execute a QMP command, such as `stop` and `cont`."""
        return qmp.execute(self._places.control, command, **given)

    def boot_id(self) -> str:
        """Return the kernel's id of this boot."""
        with self._explained():
            return self._connected().boot_id(0)

    def is_on(self) -> bool:
        """Report whether QEMU runs."""
        return self._qemu is not None and self._qemu.poll() is None

    @property
    def _places(self) -> Places:
        return Places(self.folder)

    def _make_disks(self) -> None:
        """Make overlays and empty disks, once: they keep their content over boots."""
        for name, backing in (("root", self.parts.guest.disk), ("checkout", self.parts.checkout)):
            self._image(name, ["-b", str(backing), "-F", "raw"])
        for disk in self.hardware.disks:
            self._image(disk.name, [], f"{disk.mebibytes}M")

    def _image(self, name: str, backing: list[str], *size: str) -> None:
        file = self._places.disk(name)
        if not file.exists():
            command = [*self.parts.qemu.image, "create", "-q", "-f", "qcow2", *backing, str(file), *size]
            subprocess.run(command, check=True, capture_output=True, env=self._environment)

    def _start(self) -> None:
        guest = self.parts.guest
        kernel = ["-kernel", str(guest.kernel), "-initrd", str(guest.initrd)]
        fitting = arguments(self.hardware, self._places, accelerator(self.parts.qemu, guest))
        self._qemu = start_qemu(self.parts.qemu, [*kernel, *fitting])
        self.console.listen(self._qemu)
        self._shell = Shell(self._places.shell, self.is_on)
        with self._explained():
            self._shell.connect(PATIENCE)

    def _until_running(self, before: str, seconds: float) -> None:
        with self._explained():
            self._connected().boot_id(seconds, but_not=before)
        self.run("systemctl is-system-running --wait", seconds, check=False)

    def _until_off(self, seconds: float) -> None:
        assert self._qemu is not None
        try:
            self._qemu.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise MachineFailed(f"it is not off after {seconds:.0f} s{self._tail()}") from error
        if self._shell is not None:
            self._shell.close()
        self._qemu = self._shell = None

    def _connected(self) -> Shell:
        if self._shell is None:
            raise ShellFailed("the machine is off")
        return self._shell

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ShellFailed as error:
            raise MachineFailed(f"{error}{self._tail()}") from error

    def _tail(self) -> str:
        return f"\n--- the end of the console:\n{self.console.text()[-TAIL:]}"

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.parts.qemu.environment}


@contextlib.contextmanager
def parts_of_this_checkout() -> Iterator[Parts]:
    """Find or build QEMU and the guest, and make a disk of the checkout as it is now; raises NotHere."""
    qemu, guest = find_qemu(), find_guest()
    with run_folder() as folder:
        checkout.copy(CHECKOUT, folder / "checkout")
        checkout.compile_for_guest(folder / "checkout", guest.python)
        disks.make_disk(folder / "checkout.img", folder / "checkout", CHECKOUT_MIB)
        shutil.rmtree(folder / "checkout")
        yield Parts(qemu, guest, folder / "checkout.img")


@contextlib.contextmanager
def machine_of(parts: Parts, hardware: Hardware) -> Iterator[Machine]:
    """Yield a machine that is off; afterwards nothing of it is left."""
    with run_folder() as folder:
        machine = Machine(parts, folder, hardware)
        try:
            yield machine
        finally:
            machine.pull_plug()
