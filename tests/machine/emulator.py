"""QEMU as a process: started, listened to, and killed with whoever started it.

The kernel kills it when its parent has ended (`setpriv --pdeathsig`), whatever ended that. For the kernel a parent is a thread, so a
machine is booted in the main thread.
"""

import functools
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.machine.images.guest import Guest
from tests.machine.images.qemu import Qemu

PROBE_SECONDS: Final = 20.0
CONSOLE_BYTES: Final = 256 << 10
_PROBED: Final = "Run /init as init process"
"""What the kernel says when it runs its first program."""
_LOOK: Final = 0.05


def start_qemu(qemu: Qemu, given: list[str]) -> "subprocess.Popen[bytes]":
    """Start QEMU with these arguments; its output and the guest's console are its stdout."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *qemu.system, *given],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **qemu.environment},
    )


class Console:
    """The last output of the guest's serial console, and QEMU's own; all of it goes to a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._kept = b""
        self._news = threading.Condition()

    def listen(self, qemu: "subprocess.Popen[bytes]") -> None:
        """Read what a QEMU says until it ends."""
        threading.Thread(target=self._listen, args=[qemu], daemon=True).start()

    def text(self) -> str:
        """Return the last 256 KiB."""
        return self._kept.decode(errors="replace")

    def until(self, said: str, alive: Callable[[], bool], seconds: float) -> bool:
        """Wait for words, as long as somebody can say them; report whether they came."""
        deadline = time.monotonic() + seconds
        with self._news:
            while said not in self.text():
                if not alive() or time.monotonic() > deadline:
                    return False
                self._news.wait(_LOOK)
        return True

    def _listen(self, qemu: "subprocess.Popen[bytes]") -> None:
        assert qemu.stdout is not None
        with qemu.stdout as stream:
            while piece := os.read(stream.fileno(), 64 << 10):
                if self._file is not None:
                    with self._file.open("ab") as said:
                        said.write(piece)
                with self._news:
                    self._kept = (self._kept + piece)[-CONSOLE_BYTES:]
                    self._news.notify_all()


@functools.cache
def accelerator(qemu: Qemu, guest: Guest) -> str:
    """Return `kvm` if the guest's kernel gets as far as its first program within 20 s, else `tcg`."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    probe = ["-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", "kvm", "-cpu", "host"]
    probe += ["-m", "512", "-kernel", str(guest.kernel), "-initrd", str(guest.initrd)]
    console, process = Console(), start_qemu(qemu, [*probe, "-append", "console=ttyS0", "-serial", "stdio"])
    try:
        console.listen(process)
        works = console.until(_PROBED, lambda: process.poll() is None and "KVM: " not in console.text(), PROBE_SECONDS)
    finally:
        process.kill()
        process.wait()
    return "kvm" if works else "tcg"
