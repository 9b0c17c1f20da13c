"""The CSI driver of `tests.csi.driver` as a process that a test starts, kills and inspects."""

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from activities.files import mounts
from tests import patience
from tests.csi.driver import detach_all
from tests.csi.orders import DriverFolder, Setup
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = patience.PATIENCE


@dataclass
class DriverProcess:
    """A driver in a folder that registers in another; a context manager that leaves no mount of its volumes behind."""

    path: Path
    registry: Path
    setup: Setup = field(default_factory=Setup)
    process: "subprocess.Popen[bytes] | None" = None

    def __post_init__(self) -> None:
        self.folder = DriverFolder(self.path)
        self.folder.setup(self.setup)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for point in mounts.mounts_below(self.path):
            mounts.unmount(Path(point))
        detach_all(self.path)

    def start(self, *, registered: bool = True) -> None:
        """Start it, and wait until the kubelet has confirmed the registration."""
        before = self.folder.count("NotifyRegistrationStatus")
        self.registry.mkdir(parents=True, exist_ok=True)
        with (self.path / "driver.log").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.csi.driver", str(self.path), str(self.registry)],
                cwd=ROOT,
                stdout=said,
                stderr=said,
            )
        if registered:
            process, log = self.process, self.path / "driver.log"

            def has_registered() -> bool:
                assert process.poll() is None, f"the driver has ended: {log.read_text()}"
                return self.folder.count("NotifyRegistrationStatus") > before

            wait_until(has_registered, lambda: f"the driver has registered: {log.read_text()}")

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop it with a signal."""
        if self.process is not None:
            self.process.send_signal(sign)
            self.process.wait(timeout=PATIENCE)
            self.process = None

    def has_ended(self) -> bool:
        """Report whether it has exited by itself."""
        return self.process is not None and self.process.poll() is not None

    def died(self) -> None:
        """Wait until it has exited by itself."""
        assert self.process is not None
        self.process.wait(timeout=PATIENCE)
        self.process = None
