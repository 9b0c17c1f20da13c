"""Exit codes of the commands, and the one line on stderr that reports an error.

| code | meaning |
|--|--|
| 0 | done |
| 1 | failed; the line says what failed and what to do |
| 2 | wrong usage or configuration: do not retry |
| 3 | not found, for example the `history` of an unknown pod |
| 4 | another worker or poller already runs for this node |
| 5 | `replay`, `upgrade`: a history does not replay with this code |
| 130 | interrupted |
"""

import os
import sys
import traceback
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """Exit codes of `tempolet`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    ALREADY_RUNNING = 4
    REPLAY_DIFFERS = 5
    INTERRUPTED = 130


class CommandFailed(Exception):
    """A command failed; the message is the line that the operator sees."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


_CODES: Final = {
    "CommandFailed": None,
    "WrongUsage": Exit.USAGE,
    "WrongRequest": Exit.USAGE,
    "ConfigurationRefused": Exit.USAGE,
    "NameTaken": Exit.USAGE,
    "KeyFileRefused": Exit.USAGE,
    "KernelTunablesDiffer": Exit.USAGE,
    "MachineUnfit": Exit.USAGE,
    "CommitmentTooOld": Exit.USAGE,
    "TemporalMisconfigured": Exit.USAGE,
    "NodeLockHeld": Exit.ALREADY_RUNNING,
}
"""By class name, so that reporting an error imports nothing."""

_DEBUG_HINT: Final = "; run it again with --debug for the traceback"


def report_error(error: BaseException, *, debug: bool) -> int:
    """Print an error as one line (with --debug, its traceback first) and return the exit code."""
    if debug and not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error)
    error = _first(error)
    match error:
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # otherwise Python reports the closed pipe again on exit
            return Exit.FAILED
    line, code = _foreseen(error) or (
        f"{type(error).__name__}: {str(error).strip() or 'no message'}" + ("" if debug else _DEBUG_HINT),
        Exit.FAILED,
    )
    print(f"tempolet: {line}", file=sys.stderr)
    return code


def is_unforeseen(error: Exception) -> bool:
    """Report whether an error is a defect of tempolet, whose traceback is needed."""
    return _foreseen(_first(error)) is None


def _first(error: BaseException) -> BaseException:
    """Return the first that failed of a group's tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _foreseen(error: BaseException) -> tuple[str, int] | None:
    """Return the line and the exit code of an error that says itself what is wrong."""
    match error:
        case CommandFailed():
            return str(error), error.code
        case _ if (known := _CODES.get(type(error).__name__)) is not None:
            return str(error), known
        case _ if type(error).__module__.startswith(("worker.", "activities.", "proto.", "deploy.")):
            return str(error), Exit.FAILED
        case OSError() if error.strerror:
            return (f"{error.filename}: {error.strerror}" if error.filename else error.strerror), Exit.FAILED
    return None
