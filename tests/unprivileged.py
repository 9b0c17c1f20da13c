"""Runs a piece of a test as an ordinary user of the machine, who is neither root nor in any group of root's."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Final

NOBODY: Final = 65534


@contextlib.contextmanager
def as_nobody(act: Callable[[], str]) -> Iterator[str]:
    """Act in a process of uid 65534 and yield what it answers; the process lives, with what it holds, while the block runs."""
    answers, to_answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_nobody(act, to_answer)
    os.close(to_answer)
    try:
        with os.fdopen(answers, "rb") as said:
            yield said.read().decode()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become_nobody(act: Callable[[], str], to_answer: int) -> None:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            said = act()
        except Exception as error:  # noqa: BLE001 - whatever it was, the test shows it
            said = f"{type(error).__name__}: {error}"
        os.write(to_answer, said.encode())
        os.close(to_answer)
        signal.pause()
    finally:
        os._exit(0)
