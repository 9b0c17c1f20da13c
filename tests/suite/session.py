"""One pytest session as a process: started, listened to, ended.

It is a process group of its own, so Ctrl-C in a terminal reaches the runner alone, which passes it on once. The kernel ends it when
the runner is killed. All that it has started, and their children, carry its label in their environment: what is left at its end is found
by that, also in process groups of their own.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.suite.reporting import PIPE

HERE: Final = Path(__file__).parents[2]
SILENT_SECONDS: Final = 30 * 60.0
"""A session that tells nothing for so long hangs; the first of the cluster builds Kubernetes' programs meanwhile."""
LABEL: Final = "TEMPOLET_TEST_SESSION"
"""The variable in the environment of all processes of a session."""
INTERRUPTED_SECONDS: Final = 5 * 60.0
"""How long an interrupted session may take to end, before it is killed."""
_ENDING_SECONDS: Final = 5.0
_LAST_WORDS_SECONDS: Final = 10.0
_YIELDS: Final = 10
"""Niceness: a tenth of the time that a session has which does not yield."""
_AUTOGROUP: Final = Path("/proc/self/autogroup")
_LONGEST_LINE: Final = 1 << 30
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


@dataclass(slots=True)
class Session:
    """A pytest session over some files or tests of a checkout; what it prints goes to `log`."""

    root: Path
    wanted: Sequence[str]
    log: Path
    yields: bool = False
    """Whether it, and what it starts, has a lower priority than other sessions."""
    process: asyncio.subprocess.Process | None = None
    ends_within: float = INTERRUPTED_SECONDS
    interrupted: bool = False
    left: tuple[str, ...] = ()
    """The names of the processes that it has left behind, and that were ended."""
    _label: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _killing: asyncio.TimerHandle | None = field(default=None, init=False)

    async def run(self, hear: Callable[[Mapping[str, Any]], None]) -> int:
        """Run it, and give each event to `hear`; answers its exit code."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as pipe:
            try:
                with self.log.open("wb") as log:
                    self.process = await asyncio.create_subprocess_exec(
                        *(sys.executable, "-m", "pytest", "-p", "tests.suite.reporting", "-p", "no:cacheprovider"),
                        f"--rootdir={self.root}",
                        *self.wanted,
                        cwd=self.root,
                        env={**os.environ, PIPE: str(writing), LABEL: self._label, "PYTHONPATH": _python_path()},
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        pass_fds=(writing,),
                        start_new_session=True,
                        preexec_fn=partial(_prepare, _YIELDS if self.yields else 0),
                    )
            finally:
                os.close(writing)
            if self.interrupted:
                self.interrupt()
            telling = asyncio.create_task(self._listen(pipe, hear))
            code = await self.process.wait()
            if self._killing is not None:
                self._killing.cancel()
            self.left = await end_labelled(self._label)
            with contextlib.suppress(TimeoutError):  # a process that has cleared its environment may hold the pipe open
                await asyncio.wait_for(telling, _LAST_WORDS_SECONDS)
            return code

    def interrupt(self) -> None:
        """Let it end as at Ctrl-C, so that its fixtures end what they have started; kill it if it hangs."""
        self.interrupted = True
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            if self._killing is None:
                self._killing = asyncio.get_running_loop().call_later(self.ends_within, self._kill)

    def _kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()

    async def _listen(self, pipe: Any, hear: Callable[[Mapping[str, Any]], None]) -> None:
        reader = asyncio.StreamReader(_LONGEST_LINE)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while True:
                try:
                    line = await asyncio.wait_for(reader.readline(), SILENT_SECONDS)
                except TimeoutError:
                    self.interrupt()
                    continue
                if not line.endswith(b"\n"):
                    return
                hear(json.loads(line))
        finally:
            transport.close()


async def end_labelled(label: str) -> tuple[str, ...]:
    """Kill every process whose environment has this label; answers their names.

    Those that end with the session by themselves have a moment for it. One that even SIGKILL does not end at once is left.
    """
    ended: dict[str, str] = {}
    entry, began = f"{LABEL}={label}".encode(), time.monotonic()
    while (found := list(_labelled(entry))) and time.monotonic() < began + 2 * _ENDING_SECONDS:
        for process in found if time.monotonic() >= began + _ENDING_SECONDS else ():
            with contextlib.suppress(OSError):  # it has ended by itself
                ended[process.name] = (process / "comm").read_text().strip()
                os.kill(int(process.name), signal.SIGKILL)
        await asyncio.sleep(0.1)  # other processes: there is no event to await
    return tuple(ended.values())


def _labelled(entry: bytes) -> Iterator[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry in (process / "environ").read_bytes().split(b"\0"):
                yield process


def _python_path() -> str:
    return os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])


def _prepare(yields: int) -> None:
    os.nice(yields)
    if yields:  # a kernel that groups processes by their session compares the niceness of the groups
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(yields))
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
